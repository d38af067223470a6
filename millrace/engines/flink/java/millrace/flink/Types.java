package millrace.flink;

import org.apache.flink.table.api.DataTypes;
import org.apache.flink.table.types.DataType;

/** The column type of each kind of value in a rule. */
final class Types {
    private Types() {}

    static DataType of(String kind) {
        switch (kind) {
            case "whole":
                return DataTypes.BIGINT();
            case "real":
                return DataTypes.DOUBLE();
            case "flag":
                return DataTypes.BOOLEAN();
            default:
                return DataTypes.STRING();
        }
    }
}
