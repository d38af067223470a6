package handwritten;

/** A purchase at a point of sale. */
public record Purchase(
        String id,
        String customer,
        String card,
        String merchant,
        long amountCents,
        double latitude,
        double longitude,
        long atMs,
        Long sentMs) {}
