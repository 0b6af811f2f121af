package org.springframework.kafka.retrytopic;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.serialization.*;
import org.apache.kafka.common.TopicPartition;
import org.springframework.kafka.core.*;
import org.springframework.kafka.listener.*;

/** Lets Spring Kafka publish a failed record to a dead-letter topic, by its two ways: spring.dlt and (retry topics) spring-dlt. */
public class SpringDeadLetters {
    static DestinationTopic topic(String name, DestinationTopic.Type type) {
        return new DestinationTopic(name, new DestinationTopic.Properties(1000, "-dlt", type, 3, 1, DltStrategy.ALWAYS_RETRY_ON_ERROR, null, (a, e) -> true, -1));
    }

    public static void main(String[] args) throws Exception {
        Map<String, Object> settings = new HashMap<>(Map.of("bootstrap.servers", args[0], "group.id", "billing",
            "auto.offset.reset", "earliest", "key.deserializer", ByteArrayDeserializer.class, "value.deserializer", ByteArrayDeserializer.class,
            "key.serializer", ByteArraySerializer.class, "value.serializer", ByteArraySerializer.class));
        DefaultKafkaProducerFactory<byte[], byte[]> factory = new DefaultKafkaProducerFactory<>(settings);
        KafkaTemplate<byte[], byte[]> template = new KafkaTemplate<>(factory);
        KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings);
        consumer.assign(List.of(new TopicPartition("orders", 2)));
        List<ConsumerRecord<byte[], byte[]>> records = new ArrayList<>();
        while (records.size() < 2) consumer.poll(Duration.ofSeconds(1)).forEach(records::add);
        Exception failure = new ListenerExecutionFailedException("Listener failed", "billing", new IllegalStateException("no such customer"));
        DeadLetterPublishingRecoverer recoverer = new DeadLetterPublishingRecoverer(template, (r, e) -> new TopicPartition("spring.dlt", -1));
        DeadLetterPublishingRecovererFactory retries = new DeadLetterPublishingRecovererFactory(new DestinationTopicResolver() {
            public DestinationTopic resolveDestinationTopic(String id, String t, Integer attempt, Exception e, long timestamp) {
                return topic("spring-dlt", DestinationTopic.Type.DLT);
            }
            public void addDestinationTopics(String id, List<DestinationTopic> topics) { }
            public DestinationTopic getDestinationTopicByName(String id, String name) { return topic(name, DestinationTopic.Type.DLT); }
            public DestinationTopic getNextDestinationTopicFor(String id, String t) { return topic("spring-dlt", DestinationTopic.Type.DLT); }
            public DestinationTopic getDltFor(String id, String t, Exception e) { return topic("spring-dlt", DestinationTopic.Type.DLT); }
        });
        retries.setDeadLetterPublisherCreator((t, d) -> new DeadLetterPublishingRecoverer(r -> template, false, d));
        for (ConsumerRecord<byte[], byte[]> record : records) {
            recoverer.accept(record, consumer, failure);
            retries.create("main").accept(record, consumer, new TimestampedException(failure, java.time.Instant.ofEpochMilli(1700000009000L)));
        }
        template.flush();
        factory.destroy();
        consumer.close();
    }
}
