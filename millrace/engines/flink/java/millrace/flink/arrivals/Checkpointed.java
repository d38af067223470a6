package millrace.flink.arrivals;

import java.util.LinkedHashMap;
import java.util.Map;
import millrace.kernel.Json;

/** A split as a checkpoint has it, with the note that stands beside its committed offsets. */
record Checkpointed(ArrivalSplit split, String note) {
    /**
     * With the newest moment to which an event of the split has moved time, and the moment behind which
     * no more of it will come: the present for a task that keeps up. millrace/engines/spark/event_time/elsewhere.py
     * reads it.
     */
    static Checkpointed at(ArrivalSplit split, boolean isLive, long nowMs) {
        Map<String, Object> note = new LinkedHashMap<>();
        note.put("newest_ms", split.newestMs());
        note.put("through_ms", isLive ? nowMs : split.newestMs());
        return new Checkpointed(split, Json.text(note));
    }
}
