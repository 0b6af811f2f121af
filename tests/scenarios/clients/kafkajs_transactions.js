// kafkajs: a transaction is committed with offsets, one is aborted; the reader sees what was committed. Prints ok.
// argv: bootstrap, topic (made here).
const { Kafka, logLevel } = require("kafkajs");
const [bootstrap, topic] = process.argv.slice(2);
const kafka = new Kafka({ brokers: [bootstrap], logLevel: logLevel.ERROR });
const groupId = `${topic}-group`;
const check = (holds, ...about) => { if (!holds) throw new Error(JSON.stringify(about)); };
(async () => {
  const admin = kafka.admin();
  await admin.connect();
  await admin.createTopics({ topics: [{ topic, numPartitions: 1 }] });
  const settings = { transactionalId: `${topic}-id`, maxInFlightRequests: 1, idempotent: true };
  const producer = kafka.producer(settings);
  await producer.connect();
  for (const [number, commit] of [[1, true], [2, false], [3, true]]) {
    const transaction = await producer.transaction();
    await transaction.send({ topic, messages: [{ value: `${number}a` }, { value: `${number}b` }] });
    await transaction.sendOffsets({
      consumerGroupId: groupId,
      topics: [{ topic, partitions: [{ partition: 0, offset: String(number) }] }],
    });
    await (commit ? transaction.commit() : transaction.abort());
    // A commit is answered before its marker is in the offsets topic, and kafkajs does not ask for stable offsets.
    const wanted = String(commit ? number : number - 1);
    let offsets;
    for (const until = Date.now() + 10000; ; await new Promise((resolve) => setTimeout(resolve, 100))) {
      [offsets] = await admin.fetchOffsets({ groupId, topics: [topic] });
      if (offsets.partitions[0].offset === wanted || Date.now() > until) break;
    }
    check(offsets.partitions[0].offset === wanted, number, offsets);
  }
  const zombie = await producer.transaction();
  await zombie.send({ topic, messages: [{ value: "zombie" }] });
  const successor = kafka.producer(settings);
  await successor.connect();
  const last = await successor.transaction();
  await last.send({ topic, messages: [{ value: "last" }] });
  await last.commit();
  let fenced = "";
  await zombie.commit().catch((error) => { fenced = error.type; });
  check(fenced === "PRODUCER_FENCED" || fenced === "INVALID_PRODUCER_EPOCH", fenced);
  const consumer = kafka.consumer({ groupId: `${groupId}-2` });
  await consumer.connect();
  await consumer.subscribe({ topic, fromBeginning: true });
  const seen = [];
  await new Promise((resolve, reject) => {
    setTimeout(() => reject(new Error(seen.join())), 60000);
    consumer.run({
      eachMessage: async ({ message }) => {
        seen.push(message.value.toString());
        if (seen[seen.length - 1] === "last") resolve();
      },
    });
  });
  check(seen.join() === "1a,1b,3a,3b,last", seen);
  await consumer.disconnect();
  await admin.deleteTopics({ topics: [topic] });
  console.log("ok");
  process.exit(0);
})().catch((error) => { console.error(error); process.exit(1); });
