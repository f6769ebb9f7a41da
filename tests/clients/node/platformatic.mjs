// A group member on @platformatic/kafka with cooperative-sticky, its cooperative assignor, or on the new protocol (KIP-848).
// It says what it has been given when it has joined, and what it has given up before it joins again; on the new protocol
// no event says so, and it compares with each heartbeat and record.

import './promises.mjs'

import { Consumer } from '@platformatic/kafka'

import { fail, milliseconds, pairs, print, settings } from './lines.mjs'

const ASSIGNOR = 'cooperative-sticky'

const other = settings.assignors.find(name => name !== ASSIGNOR)
const assignedByBrokers = settings.properties['group.protocol'] === 'consumer'
if (other) fail(`this member has no assignor ${other}`)
let held = new Map() // topic to a set of partitions
const next = new Map() // topic and partition to the offset after what it has read
const unsaved = new Map() // of these, what is not committed yet
let committing = Promise.resolve()
let ended = false

const consumer = new Consumer({
  clientId: settings.clientId,
  clientRack: settings.rack,
  bootstrapBrokers: settings.bootstrap,
  groupId: settings.group,
  // retries: as long as a broker restarts, as by default it ends after three seconds without a leader
  ...(assignedByBrokers ? { groupProtocol: 'consumer', retries: 120 } : { protocols: [{ name: ASSIGNOR, version: 3 }] }),
  maxWaitTime: 200,
  ...milliseconds({
    sessionTimeout: 'session.timeout.ms',
    heartbeatInterval: 'heartbeat.interval.ms',
    rebalanceTimeout: 'max.poll.interval.ms',
  }),
})

function hold() {
  const now = new Map((consumer.assignments ?? []).map(({ topic, partitions }) => [topic, new Set(partitions)]))
  const lacks = topics => ([topic, number]) => !topics.get(topic)?.has(number)
  const [gone, given] = [pairs(held).filter(lacks(now)), pairs(now).filter(lacks(held))]
  held = now
  for (const one of gone) next.delete(one.join())
  const generation = consumer.generationId
  if (gone.length > 0) print('revoked', { partitions: gone, generation })
  if (given.length > 0) print('assigned', { partitions: given, generation })
  else if (!assignedByBrokers) print('joined', { generation })
}

if (assignedByBrokers) consumer.on('consumer:heartbeat:end', hold)
consumer.on('consumer:group:rebalance', hold)
consumer.on('consumer:group:join', hold)

function read(message) {
  const { topic, partition, offset } = message
  if (assignedByBrokers) hold()
  if (ended || !held.get(topic)?.has(partition)) return // it had been fetched before the partition went
  const key = [topic, partition].join()
  // on the new protocol each change takes all partitions back to what is committed, while commits are on their way
  if (offset < (next.get(key) ?? 0)) return
  print('records', { topic, partition, first: Number(offset), last: Number(offset), count: 1 })
  if (!assignedByBrokers) return message.commit(() => {}) // once printed; the stream says what was confirmed
  next.set(key, offset + 1n)
  unsaved.set(key, { topic, partition, offset: offset + 1n, leaderEpoch: -1 })
  committing = committing.then(commit)
}

// one commit at a time: of several, an earlier one that is sent again would take the later one back
async function commit() {
  const offsets = [...unsaved.values()]
  unsaved.clear()
  if (offsets.length === 0) return
  await consumer.commit({ offsets }).then(
    () => print('committed', { offsets: offsets.map(one => [one.topic, one.partition, Number(one.offset)]) }),
    () => {}, // whoever is next reads from the commit before
  )
}

function failed(error) {
  print('error', { message: String(error) })
  process.exit(1)
}

async function end() {
  if (ended) return
  ended = true
  await committing
  await consumer.close(true).catch(error => print('error', { message: String(error) }))
  print('closed')
  process.exit(0)
}

process.on('SIGTERM', end)
process.on('SIGINT', end)

print('started', { client: 'platformatic', client_id: settings.clientId })
const stream = await consumer
  .consume({ topics: settings.topics, mode: 'committed', fallbackMode: 'earliest', autocommit: false })
  .catch(failed)
stream.on('autocommit', (error, offsets) => {
  if (!error) print('committed', { offsets: offsets.map(one => [one.topic, one.partition, Number(one.offset)]) })
})
stream.on('error', failed)
stream.on('data', read)
