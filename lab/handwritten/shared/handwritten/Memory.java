package handwritten;

/** What an engine keeps of earlier messages: reference data, and state by customer. */
public interface Memory {
    /** Null if there is none of that name. */
    Merchant merchant(String name) throws Exception;

    /** Null if the customer is unknown. */
    String segment(String customer) throws Exception;

    /** Whether the purchase was not there before; it is remembered. */
    boolean isNew(Purchase purchase, long arrivedMs) throws Exception;

    /** The largest amount of the customer's purchases, or null. */
    Long highestCents(String customer) throws Exception;

    void keepHighest(String customer, long cents) throws Exception;

    /** The customer's phone as it was last, or null. */
    Phone phone(String customer) throws Exception;

    void keep(Phone phone) throws Exception;
}
