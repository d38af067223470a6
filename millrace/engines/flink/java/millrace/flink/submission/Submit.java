package millrace.flink.submission;

import java.nio.charset.StandardCharsets;

/** Submits the one job that is written on the standard input, and prints its id. */
public final class Submit {
    private Submit() {}

    public static void main(String[] arguments) throws Exception {
        String text = new String(System.in.readAllBytes(), StandardCharsets.UTF_8);
        System.out.println(new Submission(text).submit());
        // What a client of the cluster leaves running must not hold up the end.
        System.exit(0);
    }
}
