package handwritten;

import java.util.ArrayList;
import java.util.List;
import java.util.Properties;

/** Judges messages one by one, in the order of their arrival. For one thread. */
public final class Judge {
    private final String purchases;
    private final String enriched;
    private final String alerts;
    private final String deadLetters;
    private final String aboveVersion;
    private final String awayVersion;
    private final Reading reading = new Reading();
    private final Writing writing = new Writing();
    private final Memory memory;
    private final Outputs outputs;

    /** Takes the messages that are to be written. */
    public interface Outputs {
        void send(String topic, String key, byte[] value, long arrivedMs);

        /** Takes an accepted purchase, for the rule on bursts. */
        default void accept(Purchase purchase, Place place) {}
    }

    public Judge(Properties given, Memory memory, Outputs outputs) {
        purchases = given.getProperty("kind.transactions");
        enriched = given.getProperty("kind.enriched");
        alerts = given.getProperty("kind.alerts");
        deadLetters = given.getProperty("kind.dead-letters");
        aboveVersion = given.getProperty("version.above");
        awayVersion = given.getProperty("version.away");
        this.memory = memory;
        this.outputs = outputs;
    }

    public void take(Place place, byte[] value) throws Exception {
        try {
            if (place.topic().equals(purchases)) {
                judge(reading.purchase(value, place.arrivedMs()), place);
            } else {
                memory.keep(reading.phone(value, place.arrivedMs()));
            }
        } catch (Refused refused) {
            send(deadLetters, place.topic(), writing.deadLetter(refused.getMessage(), place, value), place);
        }
    }

    private void judge(Purchase purchase, Place place) throws Exception {
        String customer = purchase.customer();
        Merchant shop = memory.merchant(purchase.merchant());
        if (shop == null) {
            throw new Refused("unknown:merchants");
        }
        String segment = memory.segment(customer);
        if (segment == null) {
            throw new Refused("unknown:customers");
        }
        if (!memory.isNew(purchase, place.arrivedMs())) {
            throw new Refused("duplicate");
        }
        Long highestCents = memory.highestCents(customer);
        Phone phone = memory.phone(customer);
        List<String> flags = new ArrayList<>(2);
        if (Rules.isAboveMax(purchase, highestCents)) {
            flags.add(Rules.ABOVE_MAX);
            send(alerts, customer, writing.aboveMax(aboveVersion, purchase, highestCents, place), place);
        }
        if (Rules.isAway(purchase, phone)) {
            flags.add(Rules.AWAY);
            send(alerts, customer, writing.away(awayVersion, purchase, phone, place), place);
        }
        if (highestCents == null || purchase.amountCents() > highestCents) {
            memory.keepHighest(customer, purchase.amountCents());
        }
        send(enriched, customer, writing.enriched(purchase, shop, segment, phone, flags, place), place);
        outputs.accept(purchase, place);
    }

    private void send(String topic, String key, byte[] value, Place place) {
        outputs.send(topic, key, value, place.arrivedMs());
    }
}
