// What @platformatic/kafka needs of Node 22, in Node 18 and 20, which distributions have.

Promise.withResolvers ??= () => {
  const one = {}
  one.promise = new Promise((resolve, reject) => Object.assign(one, { resolve, reject }))
  return one
}
