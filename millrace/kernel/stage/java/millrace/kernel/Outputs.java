package millrace.kernel;

/** Where a stage writes its messages. */
public interface Outputs {
    /** Sends a message to the topic of a kind, as {@code EnginePlan.topics} names them. */
    void send(String kind, String key, byte[] value);

    /** Hands on an accepted event, with the columns of the intermediate topic, for the windows behind the stage. */
    default void accept(Object[] event) {}
}
