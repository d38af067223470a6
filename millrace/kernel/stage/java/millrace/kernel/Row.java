package millrace.kernel;

import java.util.LinkedHashMap;
import java.util.Map;

/** The columns of a row, each under its owner and name, in the order in which they are added. */
final class Row implements Expression.Columns {
    private final Map<String, Integer> columns = new LinkedHashMap<>();

    void add(String owner, String name) {
        columns.put(owner + "." + name, columns.size());
    }

    int size() {
        return columns.size();
    }

    @Override
    public int of(String owner, String name) {
        Integer column = columns.get(owner + "." + name);
        if (column == null) {
            throw new IllegalArgumentException("no column '" + owner + "." + name + "'; there are " + columns.keySet());
        }
        return column;
    }
}
