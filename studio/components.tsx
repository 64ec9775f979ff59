import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { formatAge } from "../src/cli/run-format.ts";
import { formatNumber } from "../src/util/text.ts";
import { escapeInvisible, escapeLine } from "../src/util/untrusted-text.ts";
import type { PageProblem, Report } from "./api.ts";

interface PageProps {
  title: string;
  /** A line below the title: what there is, in numbers. */
  summary?: ComponentChildren;
  actions?: ComponentChildren;
  /** The list that the page belongs to, above the title. */
  parent?: ComponentChildren;
  /** True for a page with an untrusted title: it is shown in the font of names. */
  isName?: boolean;
  children: ComponentChildren;
}

/** A page with its heading. The heading receives the focus when the page opens, so that a screen reader announces it. */
export function Page({ title, summary, actions, parent, isName = false, children }: PageProps) {
  useEffect(() => {
    document.title = `${title} · skillet studio`;
  }, [title]);
  return (
    <main id="content" tabIndex={-1}>
      <header class="page-head">
        <div>
          {parent !== undefined && <p class="parent">{parent}</p>}
          <h1 class={isName ? "name" : undefined}>{isName ? <Line text={title} /> : title}</h1>
          {summary !== undefined && <div class="summary">{summary}</div>}
        </div>
        {actions !== undefined && <div class="actions">{actions}</div>}
      </header>
      {children}
    </main>
  );
}

/** Untrusted text on one line: control characters, and those that change the direction, are written out. */
export function Line({ text }: { text: string }) {
  return <bdi>{escapeLine(text)}</bdi>;
}

let home = "";

/** Sets the folder that paths are shown relative to, as `~`. */
export function setHome(folder: string): void {
  home = folder;
}

/** A path on one line. */
export function Path({ path }: { path: string }) {
  return <Line text={path === home || path.startsWith(`${home}/`) ? `~${path.slice(home.length)}` : path} />;
}

/** Untrusted text with its lines. */
export function Block({ text, class: name = "" }: { text: string; class?: string }) {
  return (
    <pre class={`block ${name}`} tabIndex={0}>
      {escapeInvisible(text).text}
    </pre>
  );
}

/** A command to copy. */
export function Command({ text }: { text: string }) {
  const [isCopied, setCopied] = useState(false);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      setCopied(true);
      setTimeout(() => setCopied(false), COPIED_MS);
    } catch {} // The browser does not allow it: the text can be selected.
  };
  return (
    <span class="command">
      <code>{escapeLine(text)}</code>
      <button type="button" class="quiet" onClick={copy} aria-label={`Copy ${text}`}>
        {isCopied ? "Copied" : "Copy"}
      </button>
    </span>
  );
}

const COPIED_MS = 1200;

interface FixProps {
  fix?: string | undefined;
  commands?: readonly string[] | undefined;
}

/** What to do about a problem. */
export function Fix({ fix = "", commands = [] }: FixProps) {
  if (fix === "" && commands.length === 0) return null;
  return (
    <div class="fix">
      {fix !== "" && <span>{escapeLine(fix)}</span>}
      {commands.map((command) => (
        <Command key={command} text={command} />
      ))}
    </div>
  );
}

export function ProblemView({ problem }: { problem: PageProblem }) {
  return (
    <div class="problem" role="alert">
      <p>
        <Mark kind="bad" /> {escapeLine(problem.message)} <code class="code">{problem.code}</code>
      </p>
      <Fix {...problem} />
    </div>
  );
}

interface EmptyProps {
  title: string;
  children?: ComponentChildren;
  /** The command to continue with. */
  command?: string;
}

/** A list without entries: says why, and names the next command. */
export function Empty({ title, children, command }: EmptyProps) {
  return (
    <div class="empty">
      <p class="empty-title">{title}</p>
      {children !== undefined && <p>{children}</p>}
      {command !== undefined && <Command text={command} />}
    </div>
  );
}

/** Shows a report when it is there, its problem, or that it is being read. */
export function Loaded<T>({ report, children }: { report: Report<T>; children: (value: T) => ComponentChildren }) {
  const { value, problem, isLoading } = report;
  if (problem) return <ProblemView problem={problem} />;
  if (value === undefined) return isLoading ? <Loading /> : null;
  return <>{children(value)}</>;
}

/** Appears after a moment, so that a quick answer does not flicker. */
export function Loading({ text = "Reading…" }: { text?: string }) {
  return (
    <p class="loading" role="status">
      {text}
    </p>
  );
}

export type MarkKind = "good" | "warn" | "bad" | "busy" | "idle";

const MARKS: Readonly<Record<MarkKind, string>> = { good: "✓", warn: "!", bad: "✗", busy: "▸", idle: "·" };

/** A mark that does not depend on its color alone. */
export function Mark({ kind }: { kind: MarkKind }) {
  return (
    <span class={`mark ${kind}`} aria-hidden="true">
      {MARKS[kind]}
    </span>
  );
}

/** A section of a page. */
export function Section({
  title,
  note,
  children,
}: {
  title: string;
  note?: ComponentChildren;
  children: ComponentChildren;
}) {
  const id = `section-${title.toLowerCase().replace(/[^a-z]+/g, "-")}`;
  return (
    <section aria-labelledby={id}>
      <h2 id={id}>
        {title}
        {note !== undefined && <span class="note"> {note}</span>}
      </h2>
      {children}
    </section>
  );
}

/** Rows of a label and a value. Rows without a value are left out. */
export function Facts({ rows }: { rows: readonly (readonly [label: string, value: ComponentChildren])[] }) {
  const shown = rows.filter(([, value]) => value !== undefined && value !== "" && value !== null && value !== false);
  if (shown.length === 0) return null;
  return (
    <dl class="facts">
      {shown.map(([label, value]) => (
        <div key={label}>
          <dt>{label}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

/** A time, relative, with the exact one as its title. */
export function Time({ at }: { at: string }) {
  return (
    <time dateTime={at} title={at}>
      {formatAge(at)}
    </time>
  );
}

export function TokenCount({ tokens }: { tokens: number | undefined }) {
  return <span class="figure">{tokens === undefined ? "–" : formatNumber(tokens)}</span>;
}

interface TabsProps<Id extends string> {
  label: string;
  tabs: readonly { id: Id; title: string; count?: number | string | undefined }[];
  selected: Id;
  onSelect(id: Id): void;
}

/** A choice of views of the same page. */
export function Tabs<Id extends string>({ label, tabs, selected, onSelect }: TabsProps<Id>) {
  return (
    <fieldset class="tabs">
      <legend class="hidden">{label}</legend>
      {tabs.map(({ id, title, count }) => (
        <label key={id} class={id === selected ? "selected" : ""}>
          <input type="radio" name={label} value={id} checked={id === selected} onChange={() => onSelect(id)} />
          {title}
          {count !== undefined && (
            <span class="figure count">{typeof count === "number" ? formatNumber(count) : count}</span>
          )}
        </label>
      ))}
    </fieldset>
  );
}

interface SelectProps {
  label: string;
  value: string;
  options: readonly (readonly [value: string, title: string])[];
  onChange(value: string): void;
}

export function Select({ label, value, options, onChange }: SelectProps) {
  return (
    <label class="select">
      <span>{label}</span>
      <select value={value} onChange={(event) => onChange(event.currentTarget.value)}>
        <option value="">any</option>
        {options.map(([id, title]) => (
          <option key={id} value={id}>
            {escapeLine(title)}
          </option>
        ))}
      </select>
    </label>
  );
}

interface SearchFieldProps {
  label: string;
  value: string;
  placeholder?: string;
  onInput(value: string): void;
  isLarge?: boolean;
}

/** A field that `/` focuses, from everywhere on the page. */
export function SearchField({ label, value, placeholder, onInput, isLarge = false }: SearchFieldProps) {
  return (
    <label class={`search${isLarge ? " large" : ""}`}>
      <input
        type="search"
        aria-label={label}
        value={value}
        placeholder={placeholder ?? label}
        autocomplete="off"
        spellcheck={false}
        data-shortcut="/"
        onInput={(event) => onInput(event.currentTarget.value)}
      />
      <kbd>/</kbd>
    </label>
  );
}

interface RowsProps {
  count: number;
  /** In pixels. All rows have it, so that only those on the screen are rendered. */
  rowHeight: number;
  label: string;
  head: ComponentChildren;
  class: string;
  render(index: number): ComponentChildren;
  /** Identifies a row, so that it keeps the focus when others are added. */
  keyOf(index: number): string;
}

/** How many rows are rendered above and below the screen. */
const OVERSCAN = 6;

/**
 * A table that renders only the rows on the screen. Arrow keys move between the links of the rows; a row that is not rendered is scrolled
 * to first.
 */
export function Rows({ count, rowHeight, label, head, class: name, render, keyOf }: RowsProps) {
  const body = useRef<HTMLDivElement>(null);
  const [range, setRange] = useState({ from: 0, to: Math.min(count, INITIAL_ROWS) });
  const wanted = useRef<number | undefined>(undefined);
  const update = () => {
    const top = body.current?.getBoundingClientRect().top ?? 0;
    const from = Math.max(0, Math.floor(-top / rowHeight) - OVERSCAN);
    const to = Math.min(count, Math.ceil((innerHeight - top) / rowHeight) + OVERSCAN);
    setRange((now) => (now.from === from && now.to === to ? now : { from, to: Math.max(from, to) }));
  };
  useLayoutEffect(() => {
    update();
    addEventListener("scroll", update, { passive: true });
    addEventListener("resize", update);
    return () => {
      removeEventListener("scroll", update);
      removeEventListener("resize", update);
    };
  }, [count, rowHeight]);
  useLayoutEffect(() => {
    if (wanted.current === undefined) return;
    const row = body.current?.querySelector<HTMLElement>(`[data-row="${wanted.current}"] a`);
    if (!row) return;
    wanted.current = undefined;
    row.focus({ preventScroll: true });
  });
  const move = (event: KeyboardEvent) => {
    const step = STEPS[event.key];
    const row = (event.target as HTMLElement).closest<HTMLElement>("[data-row]");
    if (step === undefined || !row) return;
    event.preventDefault();
    const to = Math.max(0, Math.min(count - 1, Number(row.dataset["row"]) + step));
    wanted.current = to;
    const top = (body.current?.getBoundingClientRect().top ?? 0) + to * rowHeight;
    if (top < HEAD_ROOM) scrollBy(0, top - HEAD_ROOM);
    else if (top + rowHeight > innerHeight) scrollBy(0, top + rowHeight - innerHeight + rowHeight);
    update();
    setRange((now) => ({ ...now }));
  };
  const shown = Array.from({ length: Math.max(0, Math.min(range.to, count) - range.from) }, (_, at) => range.from + at);
  return (
    <div class={`rows ${name}`} role="table" aria-label={label} aria-rowcount={count + 1} onKeyDown={move}>
      <div class="rows-head" role="row" aria-rowindex={1}>
        {head}
      </div>
      <div ref={body} class="rows-body" role="rowgroup" style={{ height: `${count * rowHeight}px` }}>
        {shown.map((index) => (
          <div
            key={keyOf(index)}
            class="row"
            role="row"
            aria-rowindex={index + 2}
            data-row={index}
            style={{ height: `${rowHeight}px`, transform: `translateY(${index * rowHeight}px)` }}
          >
            {render(index)}
          </div>
        ))}
      </div>
    </div>
  );
}

const INITIAL_ROWS = 30;
/** The room that the fixed head of the table takes. */
const HEAD_ROOM = 80;
const STEPS: Readonly<Record<string, number>> = {
  ...{ ArrowDown: 1, ArrowUp: -1, j: 1, k: -1, PageDown: 15, PageUp: -15 },
  ...{ Home: Number.NEGATIVE_INFINITY, End: Number.POSITIVE_INFINITY },
};

export function Cell({ class: name, children }: { class?: string; children?: ComponentChildren }) {
  return (
    <div class={name} role="cell">
      {children}
    </div>
  );
}
