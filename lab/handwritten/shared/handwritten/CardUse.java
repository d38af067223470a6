package handwritten;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
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

    /** All but the card, which is the key of a store. */
    public byte[] bytes() {
        byte[] name = id.getBytes(StandardCharsets.UTF_8);
        byte[] owner = customer.getBytes(StandardCharsets.UTF_8);
        ByteBuffer to = ByteBuffer.allocate(name.length + owner.length + 49);
        to.putShort((short) name.length).put(name).putShort((short) owner.length).put(owner);
        to.put((byte) (sentMs == null ? 0 : 1)).putLong(sentMs == null ? 0 : sentMs);
        return to.putLong(amountCents).putLong(atMs).putInt(partition).putLong(offset).putLong(arrivedMs).array();
    }

    public static CardUse of(String card, ByteBuffer from) {
        String id = text(from);
        String customer = text(from);
        boolean isSent = from.get() == 1;
        long sentMs = from.getLong();
        return new CardUse(
                id, customer, card, from.getLong(), from.getLong(), isSent ? (Long) sentMs : null, from.getInt(),
                from.getLong(), from.getLong());
    }

    private static String text(ByteBuffer from) {
        byte[] bytes = new byte[from.getShort()];
        from.get(bytes);
        return new String(bytes, StandardCharsets.UTF_8);
    }

    public static byte[] bytes(List<CardUse> uses) {
        return joined(uses.stream().map(CardUse::bytes).toArray(byte[][]::new));
    }

    /** The bytes of several uses, as those of one list. */
    public static byte[] joined(byte[]... uses) {
        ByteBuffer all = ByteBuffer.allocate(Arrays.stream(uses).mapToInt(each -> each.length).sum());
        Arrays.stream(uses).forEach(all::put);
        return all.array();
    }

    /** The uses in a list of bytes, each once, though it may have been sent again. */
    public static List<CardUse> all(String card, byte[] bytes) {
        List<CardUse> uses = new ArrayList<>();
        for (ByteBuffer from = ByteBuffer.wrap(bytes); from.hasRemaining(); ) {
            CardUse use = of(card, from);
            if (!uses.contains(use)) {
                uses.add(use);
            }
        }
        return uses;
    }

    /** When the first chain of a card's uses ends: no use after that joins it. */
    public static long endMs(List<CardUse> uses) {
        uses.sort(Comparator.comparingLong(CardUse::atMs));
        int last = 0;
        while (last + 1 < uses.size() && uses.get(last + 1).atMs() - uses.get(last).atMs() <= GAP_MS) {
            last++;
        }
        return uses.get(last).atMs() + GAP_MS;
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
