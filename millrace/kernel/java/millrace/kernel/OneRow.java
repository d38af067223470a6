package millrace.kernel;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.function.BinaryOperator;

/** One row, made of the row before, which may be absent, and an event; its columns are the outputs. */
final class OneRow extends Measure {
    private final Object[] none;
    private final BinaryOperator<Object[]> next;

    private OneRow(long signature, String stream, int values, Object[] none, BinaryOperator<Object[]> next) {
        super(signature, stream, values, none.length);
        this.none = none;
        this.next = next;
    }

    static OneRow max(long signature, String stream, int field) {
        return folded(signature, stream, field, (a, b) -> compare(a, b) < 0 ? b : a);
    }

    static OneRow min(long signature, String stream, int field) {
        return folded(signature, stream, field, (a, b) -> compare(a, b) > 0 ? b : a);
    }

    static OneRow sum(long signature, String stream, int field) {
        return folded(signature, stream, field, OneRow::sum);
    }

    static OneRow count(long signature, String stream) {
        return new OneRow(signature, stream, 0, new Object[] {0L},
                (held, event) -> new Object[] {held == null ? 1L : (Long) held[0] + 1});
    }

    static OneRow last(long signature, String stream, int[] fields) {
        return new OneRow(signature, stream, fields.length, new Object[fields.length],
                (held, event) -> Arrays.stream(fields).mapToObj(field -> event[field]).toArray());
    }

    @Override
    int before(Object[] now, Object[] outputs, int at) {
        System.arraycopy(rows.isEmpty() ? none : rows.get(0), 0, outputs, at, none.length);
        return at + none.length;
    }

    @Override
    void learn(Object[] event) {
        Object[] row = next.apply(rows.isEmpty() ? null : rows.get(0), event);
        rows.clear();
        if (row != null) {
            rows.add(row);
        }
    }

    /** A value that takes in one event's field after another; an event without it changes nothing. */
    private static OneRow folded(long signature, String stream, int field, BinaryOperator<Object> fold) {
        return new OneRow(signature, stream, 1, new Object[1], (held, event) -> event[field] == null ? held
                : new Object[] {held == null ? event[field] : fold.apply(held[0], event[field])});
    }

    /** Texts in the order of their code points: compareTo would put an emoji before some letters of Asian scripts. */
    @SuppressWarnings("unchecked")
    static int compare(Object a, Object b) {
        if (a instanceof String text) {
            return Arrays.compareUnsigned(text.getBytes(StandardCharsets.UTF_8),
                    ((String) b).getBytes(StandardCharsets.UTF_8));
        }
        return ((Comparable<Object>) a).compareTo(b);
    }

    /** A sum that would not fit stays at the limit: wrapping around would give a wrong sign, failing would stop the job. */
    private static Object sum(Object a, Object b) {
        if (a instanceof Double) {
            return (Double) a + (Double) b;
        }
        long left = (Long) a;
        long right = (Long) b;
        long sum = left + right;
        boolean isOverflow = ((left ^ sum) & (right ^ sum)) < 0;
        return !isOverflow ? sum : left < 0 ? Long.MIN_VALUE : Long.MAX_VALUE;
    }
}
