package millrace.kernel;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * Messages of a partition that are gone and were not read: {@code wanted} is the offset to read next, {@code first} and
 * {@code end} are what the topic has now. millrace/patterns/loss.py has the same fields.
 */
public record Loss(String topic, int partition, long wanted, long first, long end, String topicId, String wasId) {
    /** Whether exactly this loss was accepted: another loss of the same partition is not. */
    public boolean isIn(List<Loss> accepted) {
        return accepted.stream().anyMatch(each -> each.topic.equals(topic)
                && each.partition == partition
                && each.wanted == wanted
                && each.first == first
                && each.topicId.equals(topicId));
    }

    public static List<Loss> parse(List<Object> losses) {
        return losses.stream().map(each -> {
            Map<String, Object> fields = Json.object(each);
            return new Loss(
                    (String) fields.get("topic"),
                    ((Long) fields.get("partition")).intValue(),
                    (Long) fields.get("wanted"),
                    (Long) fields.get("first"),
                    (Long) fields.get("end"),
                    (String) fields.get("topic_id"),
                    (String) fields.get("was_id"));
        }).toList();
    }

    public Map<String, Object> fields() {
        Map<String, Object> fields = new LinkedHashMap<>();
        fields.put("topic", topic);
        fields.put("partition", (long) partition);
        fields.put("wanted", wanted);
        fields.put("first", first);
        fields.put("end", end);
        fields.put("topic_id", topicId);
        fields.put("was_id", wasId);
        return fields;
    }

    @Override
    public String toString() {
        String there = "offsets " + first + " to " + end + " are there";
        return topic + "[" + partition + "]: offset " + wanted + " is next, "
                + (wasId.equals(topicId) ? there : "the topic was deleted and created anew, " + there);
    }
}
