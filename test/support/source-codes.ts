import { readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { parseSync } from "vite";

const SOURCE = join(import.meta.dirname, "../../src");

interface Node {
  type: string;
  [key: string]: unknown;
}

/** A source file, taken apart. */
export interface SourceFile {
  path: string;
  program: Node;
}

export function sourceFiles(): SourceFile[] {
  return readdirSync(SOURCE, { recursive: true, encoding: "utf8" })
    .map((path) => path.replaceAll("\\", "/"))
    .filter((path) => path.endsWith(".ts"))
    .map((path) => {
      const { program, errors } = parseSync(path, readFileSync(join(SOURCE, path), "utf8"));
      if (errors.length > 0) throw new Error(`${path}: ${errors[0]?.message}`);
      return { path, program: program as unknown as Node };
    });
}

/** Returns all codes: values of `code: …`, first arguments of errors, and arguments of project functions for their parameter `code`. */
export function listUsedCodes(files: readonly SourceFile[]): Map<string, string> {
  const takers = new Map(files.map(({ path, program }) => [path, takersIn(program)]));
  const found = new Map<string, string>();
  for (const { path, program } of files) {
    const imported = importsOf(program, path);
    const positionOf = (name: string) => takers.get(path)?.get(name) ?? takers.get(imported.get(name) ?? "")?.get(name);
    visit(program, (node) => {
      for (const code of codesAt(node, positionOf)) if (!found.has(code)) found.set(code, path);
    });
  }
  return found;
}

/** Returns every text of the sources that may become a code, without texts that a code is only compared with. */
export function textsOf(files: readonly SourceFile[]): { whole: Set<string>; starts: Set<string> } {
  const whole = new Set<string>();
  const starts = new Set<string>();
  for (const { program } of files.filter(({ path }) => !path.startsWith("errors/")))
    visit(program, (node) => {
      if (isComparison(node)) return PASS_OVER;
      if (node.type === "Literal" && typeof node["value"] === "string") whole.add(node["value"]);
      if (node.type === "Property") whole.add(nameOf(node["key"] as Node));
      if (node.type === "TemplateLiteral") {
        const [{ value } = { value: { cooked: "" } }] = node["quasis"] as { value: { cooked: string } }[];
        if (/^[a-z]+-$/.test(value.cooked)) starts.add(value.cooked);
      }
      return undefined;
    });
  return { whole, starts };
}

/** Returns environment variables, by the way they are read or by the form of the name. */
export function variablesOf(files: readonly SourceFile[]): Set<string> {
  const found = new Set<string>();
  for (const { program } of files)
    visit(program, (node) => {
      const { object, property, computed, value } = node as unknown as Member;
      const isRead = node.type === "MemberExpression" && /^env$/.test(nameOf(object));
      if (isRead && (!computed || property.type === "Literal")) found.add(nameOf(property));
      if (node.type === "Literal" && /^[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+$/.test(String(value))) found.add(String(value));
    });
  return new Set([...found].filter((name) => /^[A-Z][A-Z0-9_]+$/.test(name)));
}

interface Member {
  object: Node;
  property: Node;
  computed: boolean;
  value: unknown;
}

/** Returns the imports and re-exports of a file, by path. */
export function importedBy({ path, program }: SourceFile): { from: string; to: string; isType: boolean }[] {
  return (program["body"] as Node[]).flatMap((node) => {
    const to = nameOf(node["source"] as Node | undefined);
    if (!to.startsWith(".")) return [];
    const isType = (node["importKind"] ?? node["exportKind"]) === "type";
    return [{ from: path, to: join(dirname(path), to).replaceAll("\\", "/"), isType }];
  });
}

function codesAt(node: Node, positionOf: (name: string) => number | undefined): string[] {
  const { callee, key, value, left, right } = node as unknown as Record<string, Node>;
  const given = (node["arguments"] ?? []) as Node[];
  if (node.type === "Property" && nameOf(key) === "code") return literalsIn(value);
  if (node.type === "AssignmentPattern" && nameOf(left) === "code") return literalsIn(right);
  if (node.type === "NewExpression" && ERRORS.test(nameOf(callee))) return literalsIn(given[0]);
  if (node.type !== "CallExpression") return [];
  const position = positionOf(nameOf(callee));
  return position === undefined ? [] : literalsIn(given[position]);
}

const ERRORS = /^(?:SkillError|PromptValidationError|Told)$/;

/** Functions with a parameter `code`, and which one it is. */
function takersIn(program: Node): Map<string, number> {
  const takers = new Map<string, number>();
  visit(program, (node) => {
    const made = node.type === "VariableDeclarator" ? (node["init"] as Node | null) : node;
    if (!made || !/Function/.test(made.type)) return;
    const position = ((made["params"] ?? []) as Node[]).findIndex((parameter) => isCode(parameter));
    if (position !== -1) takers.set(nameOf(node["id"] as Node | undefined), position);
  });
  takers.delete("");
  return takers;
}

/** True for a parameter `code`, except a numeric one, which is not one of the project's codes. */
function isCode(parameter: Node): boolean {
  const target = parameter.type === "AssignmentPattern" ? (parameter["left"] as Node) : parameter;
  const annotation = JSON.stringify(target["typeAnnotation"] ?? {});
  return nameOf(target) === "code" && !/TSNumberKeyword|ProtocolErrorCode/.test(annotation);
}

function importsOf(program: Node, path: string): Map<string, string> {
  const found = new Map<string, string>();
  for (const node of program["body"] as Node[]) {
    if (node.type !== "ImportDeclaration") continue;
    const from = String((node["source"] as Node)["value"]);
    for (const { local } of node["specifiers"] as { local: Node }[])
      found.set(nameOf(local), join(dirname(path), from).replaceAll("\\", "/"));
  }
  return found;
}

/** Returns the possible texts of an expression. */
function literalsIn(node: Node | null | undefined): string[] {
  const { consequent, alternate, left, right, expression } = (node ?? {}) as Record<string, Node>;
  if (node?.type === "Literal") return typeof node["value"] === "string" && node["value"] !== "" ? [node["value"]] : [];
  if (node?.type === "ConditionalExpression") return [...literalsIn(consequent), ...literalsIn(alternate)];
  if (node?.type === "LogicalExpression") return [...literalsIn(left), ...literalsIn(right)];
  if (node?.type === "TSAsExpression") return literalsIn(expression);
  return [];
}

function isComparison({ type, operator, callee }: Node): boolean {
  if (type === "BinaryExpression") return /^[!=]==$/.test(String(operator));
  return type === "NewExpression" && nameOf(callee as Node) === "Set";
}

function nameOf(node: Node | null | undefined): string {
  if (node?.type === "MemberExpression") return nameOf(node["property"] as Node);
  return String(node?.["name"] ?? node?.["value"] ?? "");
}

/** Visits each node of a tree, from its root, and skips the children of a node if `see` returns so. */
function visit(value: unknown, see: (node: Node) => unknown): void {
  if (Array.isArray(value)) for (const item of value) visit(item, see);
  else if (value !== null && typeof value === "object") {
    const isNode = typeof (value as Node).type === "string";
    if (isNode && see(value as Node) === PASS_OVER) return;
    for (const key in value) visit((value as Node)[key], see);
  }
}

const PASS_OVER = Symbol("pass over");
