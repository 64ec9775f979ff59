const FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif";
const COLORS = { paper: "#161b22", edge: "#8b949e", ink: "#e6edf3", dim: "#a5b0bd", box: "#21262d" };
const TONES = { plain: COLORS.edge, good: "#56d364", check: "#e3b341", model: "#79c0ff", bad: "#ff8b82" };

type Tone = keyof typeof TONES;

/** A box of a diagram. Columns and rows are cells of a grid. */
interface Box {
  column: number;
  row: number;
  title: string;
  text?: readonly string[];
  tone?: Tone;
  /** The number of columns that it covers. */
  columns?: number;
}

interface Diagram {
  title: string;
  columns: number;
  rows: number;
  boxes: Readonly<Record<string, Box>>;
  /** Arrows between boxes, by key. */
  arrows: readonly (readonly [from: string, to: string])[];
}

const DIAGRAMS: Readonly<Record<string, Diagram>> = {
  disclosure: {
    title:
      "How a query becomes a prompt: skills from all folders are merged into a catalog; the query is matched by name, trigger and words; the best match decides between nothing, the number of skills, a list, and full instructions",
    columns: 4,
    rows: 3,
    boxes: {
      folders: { column: 0, row: 0, title: "Folders", text: ["bundled, installed,", "user, workspace, clients"] },
      catalog: { column: 1, row: 0, title: "Catalog", text: ["one copy of each name,", "the rest shadowed"] },
      policy: {
        column: 2,
        row: 0,
        title: "Policies",
        text: ["disabled, wrong machine,", "not for this caller"],
        tone: "check",
      },
      match: {
        column: 3,
        row: 0,
        title: "Match",
        text: ["your query against names,", "triggers and words"],
        tone: "model",
      },
      tier: { column: 0, row: 1, columns: 4, title: "Tier", text: ["decided by the best match and the budget"] },
      none: { column: 0, row: 2, title: "none", text: ["no skill is visible:", "0 tokens"] },
      count: { column: 1, row: 2, title: "breadcrumb", text: ["[12 skills available]:", "nothing matched"] },
      list: { column: 2, row: 2, title: "registry", text: ["name: description", "of each skill"] },
      full: { column: 3, row: 2, title: "full", text: ["instructions of the", "best matches"], tone: "good" },
    },
    arrows: [
      ["folders", "catalog"],
      ["catalog", "policy"],
      ["policy", "match"],
      ["match", "tier"],
      ["tier", "none"],
      ["tier", "count"],
      ["tier", "list"],
      ["tier", "full"],
    ],
  },
  trust: {
    title:
      "Trust boundaries: code of a skill runs in a sandbox without network access; changes wait for an approval; a capability is reached through a broker that keeps the credentials",
    columns: 4,
    rows: 3,
    boxes: {
      skill: { column: 0, row: 0, title: "Skill", text: ["untrusted text and code"], tone: "bad" },
      trust: { column: 1, row: 0, title: "Trust", text: ["you reviewed this copy,", "by digest"], tone: "check" },
      sandbox: { column: 2, row: 0, title: "Sandbox", text: ["own processes, no keys,", "no network"], tone: "good" },
      workspace: { column: 3, row: 0, title: "Workspace", text: ["read, or write; sensitive", "paths after approval"] },
      model: { column: 0, row: 1, title: "Model", text: ["may be misled by", "prompt injection"], tone: "model" },
      approval: { column: 1, row: 1, title: "Approval", text: ["the exact input,", "at most once"], tone: "check" },
      tools: { column: 2, row: 1, title: "Tools", text: ["only the listed ones,", "within limits"] },
      audit: { column: 3, row: 1, title: "Journal", text: ["every step, redacted;", "a run can resume"] },
      run: { column: 0, row: 2, title: "Run", text: ["one caller, one skill,", "one budget"] },
      broker: { column: 1, row: 2, title: "Broker", text: ["declared, granted,", "valid, approved"], tone: "check" },
      provider: {
        column: 2,
        row: 2,
        title: "Capability",
        text: ["mail, issues, notes:", "keys stay here"],
        tone: "good",
      },
      log: { column: 3, row: 2, title: "Audit log", text: ["a hash chain:", "verify it"] },
    },
    arrows: [
      ["skill", "trust"],
      ["trust", "sandbox"],
      ["sandbox", "workspace"],
      ["model", "approval"],
      ["approval", "tools"],
      ["tools", "audit"],
      ["run", "broker"],
      ["broker", "provider"],
      ["provider", "log"],
    ],
  },
  journey: {
    title:
      "Add, serve, export: a remote source is checked and locked before it reaches your folders; from there skills are served over MCP, exported as copies, run, or used by your own program",
    columns: 4,
    rows: 3,
    boxes: {
      source: { column: 0, row: 0, title: "Source", text: ["git, archive, site,", "folder"], tone: "bad" },
      gate: { column: 1, row: 0, title: "Checks", text: ["paths, links, sizes,", "scanner, signature"], tone: "check" },
      consent: { column: 2, row: 0, title: "You", text: ["see files and scripts,", "then approve"], tone: "check" },
      lock: { column: 3, row: 0, title: "Lock file", text: ["digest of every file"], tone: "good" },
      catalog: {
        column: 0,
        row: 1,
        columns: 4,
        title: "Catalog",
        text: ["a changed skill is not used until you review it"],
      },
      serve: {
        column: 0,
        row: 2,
        title: "skillet serve",
        text: ["MCP: any client, scripts", "in the sandbox"],
        tone: "model",
      },
      export: {
        column: 1,
        row: 2,
        title: "skillet export",
        text: ["copies in the folders", "of clients"],
        tone: "model",
      },
      run: {
        column: 2,
        row: 2,
        title: "skillet run",
        text: ["a sub-agent with its", "own tools and limits"],
        tone: "model",
      },
      library: { column: 3, row: 2, title: "Library", text: ["your own agent in", "TypeScript"], tone: "model" },
    },
    arrows: [
      ["source", "gate"],
      ["gate", "consent"],
      ["consent", "lock"],
      ["lock", "catalog"],
      ["catalog", "serve"],
      ["catalog", "export"],
      ["catalog", "run"],
      ["catalog", "library"],
    ],
  },
};

const CELL = { width: 196, height: 84, gapX: 34, gapY: 34, margin: 24 };

/** Returns the diagrams of the documentation, by path. */
export function diagramFiles(): Record<string, string> {
  return Object.fromEntries(
    Object.entries(DIAGRAMS).map(([name, diagram]) => [`docs/diagrams/${name}.svg`, drawDiagram(diagram)]),
  );
}

function drawDiagram({ title, columns, rows, boxes, arrows }: Diagram): string {
  const { width, height, gapX, gapY, margin } = CELL;
  const total = {
    x: columns * width + (columns - 1) * gapX + 2 * margin,
    y: rows * height + (rows - 1) * gapY + 2 * margin,
  };
  const parts = [
    ...arrows.map(([from, to]) => drawArrow(findBox(boxes, from), findBox(boxes, to))),
    ...Object.values(boxes).map(drawBox),
  ];
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${total.x} ${total.y}" width="${total.x}" height="${total.y}" role="img" font-family="${FONT}">
<title>${escapeXml(title)}</title>
<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto-start-reverse"><path d="M0 0 8 4 0 8z" fill="${COLORS.edge}"/></marker></defs>
<rect x="0.5" y="0.5" width="${total.x - 1}" height="${total.y - 1}" rx="8" fill="${COLORS.paper}" stroke="${COLORS.edge}"/>
${parts.join("\n")}
</svg>
`;
}

function findBox(boxes: Diagram["boxes"], key: string): Box {
  const box = boxes[key];
  if (!box) throw new Error(`The diagram has no box '${key}'`);
  return box;
}

function left(column: number): number {
  return CELL.margin + column * (CELL.width + CELL.gapX);
}

function top(row: number): number {
  return CELL.margin + row * (CELL.height + CELL.gapY);
}

function drawBox({ column, row, title, text = [], tone = "plain", columns = 1 }: Box): string {
  const [x, y, width] = [left(column), top(row), columns * (CELL.width + CELL.gapX) - CELL.gapX];
  const middle = x + width / 2;
  const first = y + CELL.height / 2 - text.length * 9 + 5;
  const lines = text.map(
    (line, index) =>
      `<text x="${middle}" y="${first + 20 + index * 18}" text-anchor="middle" font-size="13" fill="${COLORS.dim}">${escapeXml(line)}</text>`,
  );
  return [
    `<rect x="${x}" y="${y}" width="${width}" height="${CELL.height}" rx="6" fill="${COLORS.box}" stroke="${TONES[tone]}" stroke-width="1.5"/>`,
    `<text x="${middle}" y="${first}" text-anchor="middle" font-size="15" font-weight="600" fill="${COLORS.ink}">${escapeXml(title)}</text>`,
    ...lines,
  ].join("\n");
}

function drawArrow(from: Box, to: Box): string {
  const isSameRow = from.row === to.row;
  // Between rows an arrow is vertical: in the column of the narrower box.
  const column = (from.columns ?? 1) > 1 ? to.column : from.column;
  const x = left(column) + CELL.width / 2;
  const y = top(from.row) + CELL.height / 2;
  const [start, end] = isSameRow
    ? [`${left(from.column) + CELL.width + 2} ${y}`, `${left(to.column) - 3} ${y}`]
    : [`${x} ${top(from.row) + CELL.height + 2}`, `${x} ${top(to.row) - 3}`];
  return `<path d="M${start} L${end}" stroke="${COLORS.edge}" stroke-width="1.5" fill="none" marker-end="url(#tip)"/>`;
}

function escapeXml(text: string): string {
  return text.replace(/[&<>"]/g, (found) => `&#${found.charCodeAt(0)};`);
}
