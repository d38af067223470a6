package handwritten;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;

/** An accepted purchase as its card sees it: what a burst needs of it. */
public record CardUse(
        String id, String customer, String card, long amountCents, long atMs, Long sentMs, int partition, long offset,
        long arrivedMs) {
    /** The uses of a burst are each at most so long after the one before. */
    public static final long GAP_MS = 10_000;
    /** How far behind the newest use another one may be; one that is farther behind is late. */
    public static final long DISORDER_MS = 5_000;

    public static CardUse of(Purchase purchase, Place place) {
        return new CardUse(
                purchase.id(), purchase.customer(), purchase.card(), purchase.amountCents(), purchase.atMs(),
                purchase.sentMs(), place.partition(), place.offset(), place.arrivedMs());
    }

    /** The moment to which it moves time: its own, but not beyond its arrival, in case a clock is ahead. */
    public long momentMs() {
        return Math.min(atMs, arrivedMs);
    }

    /** Takes from the uses of a card the chains that no use after this time can join; gives those that are bursts. */
    public static List<List<CardUse>> ended(List<CardUse> uses, long timeMs) {
        uses.sort(Comparator.comparingLong(CardUse::atMs));
        List<List<CardUse>> bursts = new ArrayList<>();
        int first = 0;
        for (int next = 1; next <= uses.size(); next++) {
            long lastMs = uses.get(next - 1).atMs();
            if (next < uses.size() && uses.get(next).atMs() - lastMs <= GAP_MS) {
                continue;
            }
            if (lastMs + GAP_MS > timeMs) {
                break;
            }
            if (next - first > 1) {
                bursts.add(List.copyOf(uses.subList(first, next)));
            }
            first = next;
        }
        uses.subList(0, first).clear();
        return bursts;
    }
}
