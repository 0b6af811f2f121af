// kafkajs: a consumer reads a topic through its group and commits; a second one finds nothing left to read.
// argv: bootstrap, topic, group, number of records.
const { Kafka, logLevel } = require("kafkajs");
const [bootstrap, topic, groupId, count] = process.argv.slice(2);
const kafka = new Kafka({ brokers: [bootstrap], logLevel: logLevel.ERROR });
const seen = new Set();
(async () => {
  const consumer = kafka.consumer({ groupId });
  await consumer.connect();
  await consumer.subscribe({ topic, fromBeginning: true });
  const all = new Promise((resolve, reject) => {
    setTimeout(() => reject(new Error(`only ${seen.size} records`)), 60000);
    consumer.run({
      eachMessage: async ({ partition, message }) => {
        seen.add(`${partition}:${message.offset}`);
        if (seen.size === Number(count)) resolve();
      },
    });
  });
  await all;
  await consumer.disconnect();
  const admin = kafka.admin();
  await admin.connect();
  const [offsets] = await admin.fetchOffsets({ groupId, topics: [topic] });
  const total = offsets.partitions.reduce((sum, each) => sum + Number(each.offset), 0);
  if (total !== Number(count)) throw new Error(JSON.stringify(offsets));
  const description = await admin.describeGroups([groupId]);
  if (description.groups[0].state !== "Empty") throw new Error(JSON.stringify(description));
  await admin.deleteGroups([groupId]);
  await admin.disconnect();
  console.log("ok");
  process.exit(0);
})().catch((error) => { console.error(error); process.exit(1); });
