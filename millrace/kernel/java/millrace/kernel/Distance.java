package millrace.kernel;

/** The great-circle distance, in the order of operations of {@code haversine_km} in millrace/rules/expressions.py. */
public final class Distance {
    private static final double EARTH_RADIUS_KM = 6371.0088; // mean radius, IUGG

    private Distance() {}

    public static double km(double latitude, double longitude, double otherLatitude, double otherLongitude) {
        double halfLatitude = Math.sin(Math.toRadians(otherLatitude - latitude) / 2);
        double halfLongitude = Math.sin(Math.toRadians(otherLongitude - longitude) / 2);
        double chord = halfLatitude * halfLatitude
                + Math.cos(Math.toRadians(latitude)) * Math.cos(Math.toRadians(otherLatitude))
                        * halfLongitude * halfLongitude;
        return 2 * EARTH_RADIUS_KM * Math.asin(Math.sqrt(Math.min(1.0, chord)));
    }
}
