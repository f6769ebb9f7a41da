// A group member on kafkajs. Its subscription carries no rack, whatever rack it fetches with; it has no static members.
// kafkajs reports when it rejoins and what it is then given; the generation stands in one of its debug messages only.

import kafkajs from 'kafkajs'

import { fail, milliseconds, pairs, print, settings } from './lines.mjs'

const { Kafka, PartitionAssigners, logLevel } = kafkajs

const REBALANCING = 'The group is rebalancing, so a rejoin is needed' // logged as an error at each rebalance
const ASSIGNORS = { RoundRobinAssigner: PartitionAssigners.roundRobin }

const assignors = settings.assignors.map(name => ASSIGNORS[name] ?? fail(`kafkajs has no assignor ${name}`))
const held = new Map() // topic to a set of partitions
let before = [] // what it held when it was last asked to rejoin, as topics and sets of partitions
let generation = -1
let heldIn = -1 // the generation of what it holds; it hears of the next one before it says what it has lost
let ended = false

function gone(kind) {
  const partitions = pairs(held)
  held.clear()
  if (partitions.length > 0) print(kind, { partitions, generation: heldIn })
}

const kafka = new Kafka({
  clientId: settings.clientId,
  brokers: settings.bootstrap,
  logLevel: logLevel.DEBUG,
  logCreator: () => ({ level, log }) => {
    if (log.message === 'Received assignment') generation = log.generationId
    else if (level === logLevel.ERROR && log.error !== REBALANCING) {
      print('error', { message: `${log.message} ${log.error ?? ''}`.trim() })
    }
  },
})

const consumer = kafka.consumer({
  groupId: settings.group,
  rackId: settings.rack,
  maxWaitTimeInMs: 200,
  ...(assignors.length > 0 ? { partitionAssigners: assignors } : {}),
  ...milliseconds({
    sessionTimeout: 'session.timeout.ms',
    heartbeatInterval: 'heartbeat.interval.ms',
    rebalanceTimeout: 'max.poll.interval.ms',
  }),
})

consumer.on(consumer.events.REBALANCING, () => {
  before = [...held]
  gone('revoked') // it has committed
})
consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
  gone('lost') // the coordinator had forgotten it
  before = []
  const assigned = Object.entries(payload.memberAssignment)
  for (const [topic, numbers] of assigned) held.set(topic, new Set(numbers))
  heldIn = generation
  print('assigned', { partitions: pairs(held), generation })
})
consumer.on(consumer.events.COMMIT_OFFSETS, ({ payload }) => {
  const offsets = payload.topics.flatMap(({ topic, partitions }) =>
    partitions.map(({ partition, offset }) => [topic, Number(partition), Number(offset)]),
  )
  if (offsets.length > 0) print('committed', { offsets })
})
consumer.on(consumer.events.CRASH, ({ payload }) => {
  print('error', { message: `crashed, ${payload.restart ? 'restarts' : 'ends'}: ${payload.error}` })
  gone('lost')
  if (!payload.restart) process.exit(1)
})

async function eachBatch({ batch, resolveOffset, heartbeat, isStale }) {
  const { topic, partition, messages } = batch
  if (ended || isStale() || messages.length === 0) return
  if (before.length > 0 && !held.get(topic)?.has(partition)) {
    // no coordinator took its JoinGroup, and the one that came back knows of no rebalance: it goes on as it was
    for (const [name, numbers] of before) held.set(name, numbers)
    before = []
    print('assigned', { partitions: pairs(held), generation: heldIn })
  }
  let [first, last] = [Number(messages[0].offset), Number(messages[0].offset)]
  const report = () => print('records', { topic, partition, first, last, count: last - first + 1 })
  for (const message of messages.slice(1)) {
    const offset = Number(message.offset)
    if (offset !== last + 1) {
      report()
      first = offset
    }
    last = offset
  }
  report()
  resolveOffset(messages.at(-1).offset) // once printed, as only then may it be committed
  await heartbeat()
}

async function end() {
  if (ended) return
  ended = true
  await consumer.disconnect().catch(error => print('error', { message: String(error) }))
  print('closed')
  process.exit(0)
}

process.on('SIGTERM', end)
process.on('SIGINT', end)

print('started', { client: 'kafkajs', client_id: settings.clientId })
await consumer.connect()
await consumer.subscribe({ topics: settings.topics, fromBeginning: true })
await consumer.run({ eachBatchAutoResolve: false, eachBatch }) // it commits after each batch
