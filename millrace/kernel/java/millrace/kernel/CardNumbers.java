package millrace.kernel;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;

/** Card numbers in a text, as millrace/rules/card_numbers.py defines them: decision 0030 has the rule. */
public final class CardNumbers {
    private static final int DIGITS_LEAST = 13;
    private static final int DIGITS_MOST = 19;
    private static final int OTHER = -1;
    private static final int SEPARATOR = -2;
    private static final int POINT = -3;
    private static final int END = -4;
    private static final int ESCAPE_LENGTH = 6;

    private final String text;
    private final boolean isMasking;
    private final StringBuilder masked;
    private boolean isFound;
    private int at;
    private int end; // of the character at hand

    private CardNumbers(String text, boolean isMasking) {
        this.text = text;
        this.isMasking = isMasking;
        masked = isMasking ? new StringBuilder(text) : null;
    }

    /** Whether a card number is in the text. */
    public static boolean areIn(String text) {
        return text.length() >= DIGITS_LEAST && new CardNumbers(text, false).search();
    }

    /** The message with a star for each digit of a card number; the same bytes where there is none. */
    public static byte[] masked(byte[] value) {
        CardNumbers numbers = new CardNumbers(new String(value, StandardCharsets.ISO_8859_1), true);
        return numbers.search() ? numbers.masked.toString().getBytes(StandardCharsets.ISO_8859_1) : value;
    }

    /** A group of digits that stand side by side. */
    private static final class Group {
        final StringBuilder digits = new StringBuilder();
        final int begin;
        int end;

        Group(int begin) {
            this.begin = begin;
        }
    }

    private boolean search() {
        while (next() != END) {
            if (next() < 0) {
                at = end;
                continue;
            }
            List<Group> groups = groups();
            if (groups.size() == 1 && groups.get(0).digits.length() < DIGITS_LEAST && isBeforeDigit(POINT)) {
                group(); // a fraction, such as a latitude's
            } else {
                judge(groups);
            }
            if (isFound && !isMasking) {
                return true;
            }
        }
        return isFound;
    }

    /** The groups from here on, with one separator from each to the next. */
    private List<Group> groups() {
        List<Group> groups = new ArrayList<>();
        groups.add(group());
        while (isBeforeDigit(SEPARATOR)) {
            groups.add(group());
        }
        return groups;
    }

    private Group group() {
        next();
        Group group = new Group(at);
        for (int digit = next(); digit >= 0; digit = next()) {
            group.digits.append((char) ('0' + digit));
            group.end = at = end;
        }
        return group;
    }

    /** Whether this character stands here and a digit behind it; then it is passed. */
    private boolean isBeforeDigit(int character) {
        int before = at;
        if (next() == character) {
            at = end;
            if (next() >= 0) {
                return true;
            }
        }
        at = before;
        return false;
    }

    private void judge(List<Group> groups) {
        for (int first = 0; first < groups.size(); first++) {
            StringBuilder digits = new StringBuilder();
            for (int last = first; last < groups.size(); last++) {
                digits.append(groups.get(last).digits);
                if (digits.length() > DIGITS_MOST) {
                    break;
                }
                boolean isTime = first == last && isTime(digits);
                if (digits.length() >= DIGITS_LEAST && !isTime && passesLuhn(digits)) {
                    isFound = true;
                    mask(groups.get(first).begin, groups.get(last).end);
                }
            }
            if (isMasking && groups.get(first).digits.length() > DIGITS_MOST) {
                isFound = true;
                mask(groups.get(first).begin, groups.get(first).end);
            }
        }
    }

    /** Milliseconds up to 2065, microseconds or nanoseconds up to 2033: no card number looks like them. */
    private static boolean isTime(CharSequence digits) {
        int length = digits.length();
        char first = digits.charAt(0);
        return length == 13 && (first == '1' || first == '2') || (length == 16 || length == 19) && first == '1';
    }

    private static boolean passesLuhn(CharSequence digits) {
        int sum = 0;
        for (int i = digits.length() - 1, factor = 1; i >= 0; i--, factor = 3 - factor) {
            int value = factor * (digits.charAt(i) - '0');
            sum += value / 10 + value % 10;
        }
        return sum % 10 == 0;
    }

    private void mask(int begin, int stop) {
        if (!isMasking) {
            return;
        }
        int back = at;
        for (at = begin; at < stop && next() != END; at = end) {
            if (next() >= 0) {
                boolean isEscaped = end - at > 1;
                for (int i = isEscaped ? at + 2 : at; i < end; i++) {
                    masked.setCharAt(i, '*');
                }
            }
        }
        at = back;
    }

    /** What stands here: a digit's value or what else; zero bytes are passed over, as UTF-16 has them. */
    private int next() {
        while (at < text.length() && text.charAt(at) == 0) {
            at++;
        }
        if (at == text.length()) {
            return END;
        }
        end = at + 1;
        char c = text.charAt(at);
        if (c == '\\') {
            return escaped();
        }
        return c >= '0' && c <= '9' ? c - '0' : c == ' ' || c == '-' ? SEPARATOR : c == '.' ? POINT : OTHER;
    }

    private int escaped() {
        if (at + ESCAPE_LENGTH > text.length() || text.charAt(at + 1) != 'u') {
            return OTHER;
        }
        int code = 0;
        for (int i = at + 2; i < at + ESCAPE_LENGTH; i++) {
            char c = text.charAt(i);
            int digit = c < 128 ? Character.digit(c, 16) : -1;
            if (digit < 0) {
                return OTHER;
            }
            code = 16 * code + digit;
        }
        end = at + ESCAPE_LENGTH;
        return code >= '0' && code <= '9' ? code - '0' : code == ' ' || code == '-' ? SEPARATOR : OTHER;
    }
}
