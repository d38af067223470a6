package handwritten;

/** Reference data: a merchant's category and its place. */
public record Merchant(String name, String category, String place) {}
