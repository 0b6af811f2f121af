// kafkajs: creates a topic, produces (plain and idempotent), asks for offsets. Its consumer knows groups only. argv: bootstrap, topic.
const { Kafka, logLevel } = require("kafkajs");
const [bootstrap, topic] = process.argv.slice(2);
const kafka = new Kafka({ brokers: [bootstrap], logLevel: logLevel.ERROR, retry: { retries: 2 } });
(async () => {
  const admin = kafka.admin();
  await admin.connect();
  await admin.createTopics({ topics: [{ topic, numPartitions: 2 }], waitForLeaders: true });
  for (const idempotent of [false, true]) {
    const producer = kafka.producer({ idempotent });
    await producer.connect();
    const messages = Array.from({ length: 100 }, (_, i) => ({ key: `k${i}`, value: `v${i}`, headers: { h: "x" }, partition: i % 2 }));
    await producer.send({ topic, messages, acks: -1 });
    await producer.disconnect();
  }
  const offsets = await admin.fetchTopicOffsets(topic);
  if (offsets.map((o) => `${o.partition}:${o.low}:${o.high}`).sort().join() !== "0:0:100,1:0:100") throw new Error(JSON.stringify(offsets));
  await admin.deleteTopics({ topics: [topic] });
  await admin.disconnect();
  console.log("ok");
})().catch((error) => { console.error(error); process.exit(1); });
