package millrace.flink.arrivals;

import java.io.Serializable;

/**
 * How far one task has come with what lies in Kafka. Its source and its watermarks are deserialized together, so they
 * share one of these; one thread reads, another hands on.
 */
final class Reading implements Serializable {
    private static final long serialVersionUID = 1L;

    private final long liveMs;
    private final TaskTime time = new TaskTime();
    private transient volatile boolean isAtEnd;
    private transient volatile long released;
    private transient volatile long handedOn;
    private transient volatile boolean isNewestLive;
    private transient volatile long leading;

    /** A message is live that is handed on so soon after its arrival. */
    Reading(long liveMs) {
        this.liveMs = liveMs;
    }

    TaskTime time() {
        return time;
    }

    /** Counts messages that were read, and notes whether no more are known to lie in Kafka. */
    void released(int messages, boolean isAtEnd) {
        released += messages;
        this.isAtEnd = isAtEnd;
    }

    /** Counts a message that is handed on; gives whether it is live. */
    boolean handOn(long arrivedMs, long nowMs) {
        handedOn++;
        isNewestLive = nowMs - arrivedMs <= liveMs;
        return isNewestLive;
    }

    /** Counts an event that moves time. */
    void lead() {
        leading++;
    }

    /** How many events have moved time. */
    long leading() {
        return leading;
    }

    /** Whether all that is known to lie in Kafka has been handed on. */
    boolean isAtEnd() {
        return isAtEnd && handedOn == released;
    }

    /** Whether the task keeps up with what arrives. */
    boolean isLive() {
        return isNewestLive || isAtEnd();
    }
}
