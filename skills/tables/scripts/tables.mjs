// Reads data files of the current folder as tables of SQLite. Usage: tables.mjs describe|query, with `{ files, sql }` as JSON on stdin.
// Prints `{ title, metadata, output }`. The toolset starts it in the sandbox: a query that never ends is killed there.
import { readdirSync, readFileSync, realpathSync, statSync } from "node:fs";
import { isAbsolute, relative } from "node:path";

const MAX_BYTES = 100 * 1024 * 1024;
const MAX_ROWS_SHOWN = 100;
const MAX_CELL = 200;

/** Returns the real path of a regular file in the workspace. */
function resolveFile(file) {
  let path;
  try {
    path = realpathSync(file);
  } catch {
    throw new Error(`${file} does not exist in the workspace\n${suggestFiles()}`);
  }
  const inside = relative(realpathSync("."), path);
  if (isAbsolute(file) || inside.startsWith(".."))
    throw new Error(`${file} is outside of the workspace\n${suggestFiles()}`);
  const entry = statSync(path);
  if (!entry.isFile()) throw new Error(`${file} is not a file\n${suggestFiles()}`);
  if (entry.size > MAX_BYTES)
    throw new Error(`${file} has ${Math.round(entry.size / 1e6)} MB; at most 100 MB are read`);
  return path;
}

/** Names the data files that can be used. */
function suggestFiles() {
  const names = readdirSync(".").filter((name) => /^[^\p{C}]+\.(?:csv|tsv|json|jsonl|ndjson)$/iu.test(name));
  if (names.length === 0)
    return "the workspace has no data files at its top level: name one by its path, or start skillet in their folder (-C FOLDER)";
  const more = names.length > 5 ? ` and ${names.length - 5} more` : "";
  return `use one of the workspace: ${names.sort().slice(0, 5).join(", ")}${more}`;
}

/** Returns the fields of delimited text. A quoted field may contain delimiters, line ends and doubled quotes. */
function parseDelimited(text, delimiter) {
  const rows = [];
  let row = [];
  let at = 0;
  while (at < text.length) {
    let field;
    if (text[at] === '"') {
      field = "";
      for (;;) {
        const end = text.indexOf('"', at + 1);
        if (end === -1) throw new Error(`a quote in record ${rows.length + 1} is not closed`);
        field += text.slice(at + 1, end);
        at = end + 1;
        if (text[at] !== '"') break;
        field += '"';
      }
    } else {
      const start = at;
      while (at < text.length && text[at] !== delimiter && text[at] !== "\n" && text[at] !== "\r") at++;
      field = text.slice(start, at);
    }
    row.push(field);
    if (text[at] === delimiter) {
      at++;
      if (at === text.length) row.push("");
      continue;
    }
    if (at < text.length && text[at] !== "\n" && text[at] !== "\r")
      throw new Error(`text follows the closing quote of a field in record ${rows.length + 1}`);
    if (text[at] === "\r") at++;
    if (text[at] === "\n") at++;
    if (row.length > 1 || row[0] !== "") rows.push(row);
    row = [];
  }
  if (row.length > 0) rows.push(row);
  return rows;
}

/** Returns the delimiter that occurs most often in the first line, outside quotes. */
function detectDelimiter(text) {
  const line = text.slice(0, /[\r\n]/.exec(text)?.index ?? text.length).replace(/"[^"]*"/g, "");
  const counts = [",", ";", "\t", "|"].map((delimiter) => ({ delimiter, count: line.split(delimiter).length }));
  return counts.sort((a, b) => b.count - a.count)[0].delimiter;
}

/** A number that loses nothing when it is stored as one: no leading zero, no more than 15 digits. */
const NUMBER = /^-?(?:0|[1-9]\d{0,14})(?:\.\d{1,15})?(?:[eE][+-]?\d{1,2})?$/;

/** Converts a column to numbers if all of its values are. Empty values are NULL. */
function convertCells(rows, width) {
  const columns = Array.from({ length: width }, (_, column) => column);
  const cellOf = (row, column) => row[column]?.trim() ?? "";
  const isNumeric = columns.map((column) =>
    rows.every((row) => cellOf(row, column) === "" || NUMBER.test(cellOf(row, column))),
  );
  return rows.map((row) =>
    columns.map((column) => {
      if (cellOf(row, column) === "") return null;
      return isNumeric[column] ? Number(row[column]) : row[column];
    }),
  );
}

function createTableOfObjects(values) {
  const columns = [...new Set(values.flatMap((value) => Object.keys(Object(value))))];
  if (columns.length === 0) throw new Error("it contains no objects with keys");
  const toCell = (value) => {
    if (value === undefined || value === null) return null;
    if (typeof value === "boolean") return Number(value);
    return typeof value === "object" ? JSON.stringify(value) : value;
  };
  return { columns, rows: values.map((value) => columns.map((column) => toCell(Object(value)[column]))) };
}

function createTableOfDelimited(text) {
  const [head, ...rows] = parseDelimited(text, detectDelimiter(text));
  if (!head) throw new Error("it is empty");
  const seen = new Map();
  const columns = head.map((written, index) => {
    const column = written.trim() || `column_${index + 1}`;
    const times = (seen.get(column.toLowerCase()) ?? 0) + 1;
    seen.set(column.toLowerCase(), times);
    return times === 1 ? column : `${column}_${times}`;
  });
  const long = rows.findIndex((row) => row.length > columns.length);
  if (long !== -1) {
    throw new Error(`record ${long + 2} has ${rows[long].length} fields, and the first ${columns.length}`);
  }
  return { columns, rows: convertCells(rows, columns.length) };
}

function readTable(file) {
  const text = readFileSync(resolveFile(file), "utf8").replace(/^\uFEFF/, "");
  const name = file
    .split("/")
    .at(-1)
    .replace(/\.\w+$/, "")
    .replace(/\W+/g, "_")
    .replace(/^(?=\d|$)/, "t_");
  try {
    if (/\.(?:jsonl|ndjson)$/i.test(file)) {
      const lines = text.split("\n").filter((line) => line.trim() !== "");
      return { name, ...createTableOfObjects(lines.map((line) => JSON.parse(line))) };
    }
    if (!/\.json$/i.test(file)) return { name, ...createTableOfDelimited(text) };
    const parsed = JSON.parse(text);
    const list = Array.isArray(parsed) ? parsed : Object.values(Object(parsed)).find(Array.isArray);
    if (!list) throw new Error("it contains no array of objects");
    return { name, ...createTableOfObjects(list) };
  } catch (error) {
    throw new Error(`cannot read ${file} as a table: ${error.message}`);
  }
}

function readTables(files) {
  const tables = [];
  for (const file of files) {
    const table = readTable(file);
    while (tables.some(({ name }) => name.toLowerCase() === table.name.toLowerCase())) table.name += "_2";
    tables.push(table);
  }
  return tables;
}

const quote = (name) => `"${name.replaceAll('"', '""')}"`;

function formatCell(value) {
  const text = String(value ?? "")
    .replace(/\s+/g, " ")
    .replaceAll("|", "\\|");
  return text.length <= MAX_CELL ? text : `${text.slice(0, MAX_CELL)}…`;
}

function formatRows(columns, rows) {
  const line = (cells) => `| ${cells.map(formatCell).join(" | ")} |`;
  return [line(columns), `|${columns.map(() => "---").join("|")}|`, ...rows.map(line)].join("\n");
}

function describeColumn({ columns, rows }, index) {
  const filled = rows.map((row) => row[index]).filter((value) => value !== null);
  const isNumeric = filled.every((value) => typeof value === "number");
  const type = filled.length === 0 ? "empty" : isNumeric ? "number" : "text";
  const empty = rows.length - filled.length;
  return `- ${quote(columns[index])}: ${type}, ${new Set(filled).size} distinct${empty > 0 ? `, ${empty} empty` : ""}`;
}

function describe({ files }) {
  const tables = readTables(files);
  const parts = tables.map((table) => {
    const columns = table.columns.map((_, index) => describeColumn(table, index)).join("\n");
    const sample = formatRows(table.columns, table.rows.slice(0, 3));
    return `Table ${quote(table.name)}: ${table.rows.length} rows\n${columns}\n\nThe first rows:\n${sample}`;
  });
  return {
    title: `Described ${files.join(", ")}`,
    metadata: { tables: tables.map(({ name, columns, rows }) => ({ name, columns, rows: rows.length })) },
    output: parts.join("\n\n"),
  };
}

async function query({ files, sql }) {
  if (!/^\s*(?:SELECT|WITH)\b/i.test(sql)) throw new Error("only a SELECT is possible");
  const { DatabaseSync } = await import("node:sqlite");
  const tables = readTables(files);
  const database = new DatabaseSync(":memory:");
  for (const { name, columns, rows } of tables) {
    database.exec(`CREATE TABLE ${quote(name)} (${columns.map(quote).join(", ")})`);
    const insert = database.prepare(`INSERT INTO ${quote(name)} VALUES (${columns.map(() => "?").join(", ")})`);
    database.exec("BEGIN");
    for (const row of rows) insert.run(...row);
    database.exec("COMMIT");
  }
  database.exec("PRAGMA query_only = 1");
  try {
    const statement = database.prepare(sql);
    const columns = statement.columns().map(({ name }) => name);
    const rows = [];
    let count = 0;
    for (const row of statement.iterate()) if (count++ < MAX_ROWS_SHOWN) rows.push(Object.values(row));
    const note = `\n\n${count} rows; the first ${MAX_ROWS_SHOWN} are shown. Use GROUP BY or LIMIT.`;
    const output = `${rows.length === 0 ? "No rows." : formatRows(columns, rows)}${count > MAX_ROWS_SHOWN ? note : ""}`;
    return { title: count === 1 ? "1 row" : `${count} rows`, metadata: { columns, rows: count }, output };
  } catch (error) {
    const names = tables.map(({ name, columns }) => `${quote(name)} (${columns.map(quote).join(", ")})`);
    throw new Error(`${error.message}. Tables: ${names.join("; ")}`);
  }
}

try {
  const input = JSON.parse(readFileSync(0, "utf8"));
  process.stdout.write(JSON.stringify(process.argv[2] === "query" ? await query(input) : describe(input)));
} catch (error) {
  process.stdout.write(JSON.stringify({ error: error.message }));
}
