package millrace.kernel;

import java.io.DataOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;

/**
 * What one measure holds of a key's earlier events: rows of one width.
 *
 * <p>A row has first values, each saved behind a byte for its kind, then whole numbers without one.
 */
abstract class Measure {
    final long signature;
    final String stream;
    final List<Object[]> rows = new ArrayList<>();
    private final int values;
    private final int width;

    Measure(long signature, String stream, int values, int width) {
        this.signature = signature;
        this.stream = stream;
        this.values = values;
        this.width = width;
    }

    /** Puts the measure's outputs at {@code at}; gives the place behind them. */
    abstract int before(Object[] now, Object[] outputs, int at);

    abstract void learn(Object[] event);

    final void read(ByteBuffer from, int end) {
        while (from.position() < end) {
            Object[] row = new Object[width];
            for (int i = 0; i < width; i++) {
                row[i] = i < values ? Values.read(from) : (Object) from.getLong();
            }
            rows.add(row);
        }
    }

    final void write(DataOutputStream to) throws IOException {
        for (Object[] row : rows) {
            for (int i = 0; i < width; i++) {
                if (i < values) {
                    Values.write(row[i], to);
                } else {
                    to.writeLong((Long) row[i]);
                }
            }
        }
    }

    /** The newest of a time and the times in this column of the rows. */
    final long newest(int column, long atMs) {
        long newest = atMs;
        for (Object[] row : rows) {
            newest = Math.max(newest, (Long) row[column]);
        }
        return newest;
    }
}
