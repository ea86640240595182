import java.sql.*;
import java.util.*;

/** Asks a few questions through pgjdbc, and prints what came of each, a line each. */
public class Probe {
    public static void main(String[] given) throws Exception {
        Properties login = new Properties();
        login.setProperty("user", given[1]);
        login.setProperty("password", given[2]);
        try (Connection connection = DriverManager.getConnection(given[0], login)) {
            if (given.length == 4 && given[3].equals("metadata")) {
                metadata(connection.getMetaData());
            }
            for (int at = 3; at + 1 < given.length; at += 2) {
                ask(connection, given[at], given[at + 1]);
            }
        }
    }

    private interface Asked {
        ResultSet rows() throws SQLException;
    }

    /** Some of each list that tools ask for. */
    private static void metadata(DatabaseMetaData about) {
        String[] tables = {"TABLE", "VIEW"};
        list("schemas", about::getSchemas, "TABLE_SCHEM");
        list("catalogs", about::getCatalogs, "TABLE_CAT");
        list("types", about::getTableTypes, "TABLE_TYPE");
        list("tables", () -> about.getTables(null, null, "%", tables), "TABLE_SCHEM", "TABLE_NAME", "TABLE_TYPE");
        list("columns", () -> about.getColumns(null, "public", "plan", "%"), "COLUMN_NAME", "TYPE_NAME", "NULLABLE");
        list("keys", () -> about.getPrimaryKeys(null, "public", "plan"), "COLUMN_NAME");
        list("references", () -> about.getImportedKeys(null, "public", "person"), "FKCOLUMN_NAME");
        list("indexes", () -> about.getIndexInfo(null, "public", "plan", false, true), "INDEX_NAME");
        list("type info", about::getTypeInfo, "TYPE_NAME");
        list("functions", () -> about.getFunctions(null, null, "%"), "FUNCTION_NAME");
    }

    private static void list(String what, Asked asked, String... names) {
        try (ResultSet rows = asked.rows()) {
            List<String> found = new ArrayList<>();
            while (rows.next()) {
                List<String> row = new ArrayList<>();
                for (String name : names) {
                    row.add(rows.getString(name));
                }
                found.add(String.join("|", row));
            }
            System.out.println(what + ": " + String.join(", ", found));
        } catch (SQLException problem) {
            System.out.println(what + ": ERROR " + problem.getMessage().replace("\n", " "));
        }
    }

    private static void ask(Connection connection, String sql, String values) {
        try (PreparedStatement statement = connection.prepareStatement(sql)) {
            int place = 0;
            for (String value : values.isEmpty() ? new String[0] : values.split(",")) {
                bind(statement, ++place, value);
            }
            try (ResultSet rows = statement.executeQuery()) {
                ResultSetMetaData about = rows.getMetaData();
                StringBuilder columns = new StringBuilder();
                for (int i = 1; i <= about.getColumnCount(); i++) {
                    columns.append(i > 1 ? "," : "").append(about.getColumnLabel(i)).append(":").append(about.getColumnTypeName(i));
                }
                System.out.println("columns " + columns);
                while (rows.next()) {
                    StringBuilder row = new StringBuilder();
                    for (int i = 1; i <= about.getColumnCount(); i++) {
                        row.append(i > 1 ? "|" : "").append(rows.getString(i));
                    }
                    System.out.println("row " + row);
                }
                for (SQLWarning told = statement.getWarnings(); told != null; told = told.getNextWarning()) {
                    System.out.println("told " + told.getMessage().replace("\n", " "));
                }
            }
        } catch (SQLException problem) {
            org.postgresql.util.ServerErrorMessage told = ((org.postgresql.util.PSQLException) problem).getServerErrorMessage();
            System.out.println("error " + told.getSQLState() + "|" + told.getMessage() + "|" + told.getHint() + "|" + told.getPosition());
        }
    }

    private static void bind(PreparedStatement statement, int place, String value) throws SQLException {
        String rest = value.substring(1);
        switch (value.charAt(0)) {
            case 'i' -> statement.setInt(place, Integer.parseInt(rest));
            case 'd' -> statement.setDouble(place, Double.parseDouble(rest));
            case 'b' -> statement.setBoolean(place, Boolean.parseBoolean(rest));
            default -> statement.setString(place, rest);
        }
    }
}
