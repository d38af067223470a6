package handwritten;

import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/** Reference data by key, as its topics have it now. One thread writes. */
public final class References {
    private final Map<String, Merchant> merchants = new ConcurrentHashMap<>();
    private final Map<String, String> segments = new ConcurrentHashMap<>();
    private final Reading reading = new Reading();

    public void takeMerchant(byte[] key, byte[] value) {
        take(merchants, key, value, reading::merchant);
    }

    public void takeCustomer(byte[] key, byte[] value) {
        take(segments, key, value, reading::segment);
    }

    public Merchant merchant(String name) {
        return merchants.get(name);
    }

    public String segment(String customer) {
        return segments.get(customer);
    }

    private interface Reader<T> {
        T read(byte[] value) throws Refused;
    }

    private static <T> void take(Map<String, T> known, byte[] key, byte[] value, Reader<T> reader) {
        String name = new String(key, StandardCharsets.UTF_8);
        try {
            if (value == null) {
                known.remove(name);
            } else {
                known.put(name, reader.read(value));
            }
        } catch (Refused refused) {
            // What was there before stands.
        }
    }
}
