package handwritten;

import java.nio.ByteBuffer;

/** Where a customer's phone was, and when. */
public record Phone(String customer, double latitude, double longitude, long atMs) {
    private static final double EARTH_RADIUS_KM = 6371.0088; // mean radius, IUGG

    /** All but the customer, who is the key of a store. */
    public byte[] bytes() {
        return ByteBuffer.allocate(24).putDouble(latitude).putDouble(longitude).putLong(atMs).array();
    }

    public static Phone of(String customer, byte[] bytes) {
        ByteBuffer from = ByteBuffer.wrap(bytes);
        return new Phone(customer, from.getDouble(), from.getDouble(), from.getLong());
    }

    /** The great-circle distance to a purchase. */
    public double km(Purchase to) {
        double halfLatitude = Math.sin(Math.toRadians(latitude - to.latitude()) / 2);
        double halfLongitude = Math.sin(Math.toRadians(longitude - to.longitude()) / 2);
        double chord = halfLatitude * halfLatitude
                + Math.cos(Math.toRadians(to.latitude())) * Math.cos(Math.toRadians(latitude))
                        * halfLongitude * halfLongitude;
        return 2 * EARTH_RADIUS_KM * Math.asin(Math.sqrt(Math.min(1.0, chord)));
    }
}
