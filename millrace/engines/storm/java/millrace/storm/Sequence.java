package millrace.storm;

/** Which tuples of a spout a bolt takes: the next of its sequence, or the first of a newer one; none after a gap. */
final class Sequence {
    private long sequence;
    private long next;

    boolean takes(long ofSequence, long number) {
        if (ofSequence > sequence && number == 0) {
            sequence = ofSequence;
            next = 0;
        }
        if (ofSequence != sequence || number != next) {
            return false;
        }
        next++;
        return true;
    }
}
