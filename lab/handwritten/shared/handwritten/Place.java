package handwritten;

/** Where a message stands in Kafka, and when it arrived. */
public record Place(String topic, int partition, long offset, long arrivedMs) {}
