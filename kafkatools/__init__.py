"""kafkatools: Apache Kafka's bin/ without the JVM."""
