package millrace.flink.arrivals;

import java.util.List;
import millrace.kernel.Json;
import millrace.kernel.Loss;
import org.apache.flink.runtime.throwable.ThrowableAnnotation;
import org.apache.flink.runtime.throwable.ThrowableType;
import org.apache.flink.util.FlinkRuntimeException;

/** Messages were deleted before they were read: no restart brings them back, so the job fails for good. */
@ThrowableAnnotation(ThrowableType.NonRecoverableError)
final class LostMessagesException extends FlinkRuntimeException {
    private static final long serialVersionUID = 1L;

    /** The second line is for millrace/engines/flink/engine.py. */
    LostMessagesException(String pattern, List<Loss> lost) {
        super("messages were deleted before they were read: "
                + String.join("; ", lost.stream().map(Loss::toString).toList())
                + "; `millrace deploy " + pattern + " --accept-loss` continues without them\nlost: ["
                + String.join(", ", lost.stream().map(Loss::fields).map(Json::text).toList())
                + "]");
    }
}
