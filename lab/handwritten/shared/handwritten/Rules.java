package handwritten;

/** The rules; the one on bursts is in {@link CardUse}. */
public final class Rules {
    public static final String ABOVE_MAX = "above-previous-max";
    public static final String AWAY = "away-from-phone";
    public static final String BURST = "burst";
    /** How long an id is remembered: as long as its purchase could be accepted. */
    public static final long REMEMBERED_MS = 7 * 86_400_000L + 5 * 60_000L;
    private static final long FRESH_MS = 15 * 60_000L;

    private Rules() {}

    public static boolean isAboveMax(Purchase purchase, Long highestCents) {
        return highestCents != null && purchase.amountCents() > highestCents;
    }

    public static boolean isAway(Purchase purchase, Phone phone) {
        return phone != null && phone.km(purchase) > 1.0 && purchase.atMs() - phone.atMs() <= FRESH_MS;
    }
}
