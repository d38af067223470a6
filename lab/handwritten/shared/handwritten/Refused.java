package handwritten;

/** A message that is not accepted, with the reason. */
public final class Refused extends Exception {
    private static final long serialVersionUID = 1;

    public Refused(String reason) {
        super(reason, null, false, false); // without a stack: it is no fault of the program
    }
}
