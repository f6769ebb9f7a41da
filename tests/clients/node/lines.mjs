// What members in JavaScript share: their command line, and printing events as JSON lines (lab/sandbox/members/__init__.py).

export const settings = parse(process.argv.slice(2))

function parse(line) {
  const found = { bootstrap: [], group: '', topics: [], clientId: '', rack: undefined, assignors: [], properties: {} }
  for (let i = 0; i + 1 < line.length; i += 2) {
    const value = line[i + 1]
    const [key, ...rest] = value.split('=')
    const options = {
      '--bootstrap': () => (found.bootstrap = value.split(',')),
      '--group': () => (found.group = value),
      '--topics': () => (found.topics = value.split(',')),
      '--client-id': () => (found.clientId = value),
      '--rack': () => (found.rack = value),
      '--assignor': () => (found.assignors = value.split(',')),
      '--property': () => (found.properties[key] = rest.join('=')),
    }
    if (!(line[i] in options)) fail(`unknown option ${line[i]}`) // --instance-id too
    options[line[i]]()
  }
  return found
}

export function fail(message) {
  process.stderr.write(`${message}\n`)
  process.exit(2)
}

export function print(event, fields = {}) {
  const clocks = { ms: Date.now(), ns: Number(process.hrtime.bigint()) }
  process.stdout.write(`${JSON.stringify({ event, ...clocks, ...fields })}\n`)
}

// pairs: partitions as [topic, partition], of a map of topics to sets of partitions
export const pairs = topics =>
  [...topics].flatMap(([topic, numbers]) => [...numbers].sort((one, other) => one - other).map(number => [topic, number]))

// milliseconds: options of a client from properties in Kafka's names, those that are given
export const milliseconds = options =>
  Object.fromEntries(
    Object.entries(options).flatMap(([key, name]) =>
      name in settings.properties ? [[key, Number(settings.properties[name])]] : [],
    ),
  )
