package millrace.flink;

import millrace.kernel.Distance;
import org.apache.flink.table.functions.ScalarFunction;

/** The function `km` of a rule's condition: null when a place is missing. */
public final class Km extends ScalarFunction {
    private static final long serialVersionUID = 1L;

    public Double eval(Double latitude, Double longitude, Double otherLatitude, Double otherLongitude) {
        if (latitude == null || longitude == null || otherLatitude == null || otherLongitude == null) {
            return null;
        }
        return Distance.km(latitude, longitude, otherLatitude, otherLongitude);
    }
}
