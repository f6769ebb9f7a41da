// A group member on @platformatic/kafka with cooperative-sticky, its cooperative assignor. It says what it has been given
// when it has joined, and what it has given up before it joins again.

import { Consumer } from '@platformatic/kafka'

import { fail, milliseconds, pairs, print, settings } from './lines.mjs'

const ASSIGNOR = 'cooperative-sticky'

const other = settings.assignors.find(name => name !== ASSIGNOR)
if (other) fail(`this member has no assignor ${other}`)
let held = new Map() // topic to a set of partitions
let ended = false

const consumer = new Consumer({
  clientId: settings.clientId,
  clientRack: settings.rack,
  bootstrapBrokers: settings.bootstrap,
  groupId: settings.group,
  protocols: [{ name: ASSIGNOR, version: 3 }],
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
  const generation = consumer.generationId
  if (gone.length > 0) print('revoked', { partitions: gone, generation })
  if (given.length > 0) print('assigned', { partitions: given, generation })
  else print('joined', { generation })
}

consumer.on('consumer:group:rebalance', hold)
consumer.on('consumer:group:join', hold)

function read(message) {
  const { topic, partition, offset } = message
  if (ended || !held.get(topic)?.has(partition)) return // it had been fetched before the partition went
  print('records', { topic, partition, first: Number(offset), last: Number(offset), count: 1 })
  message.commit(() => {}) // once printed; the stream says what was confirmed
}

function failed(error) {
  print('error', { message: String(error) })
  process.exit(1)
}

async function end() {
  if (ended) return
  ended = true
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
