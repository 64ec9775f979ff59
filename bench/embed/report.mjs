/** The goals: the maximum size of an installation, and of an import's time relative to zod. */
const MOST_MEGABYTES = 15;
const MOST_TIMES_ZOD = 2;

export function asText({ node, rows }) {
  const zod = rows.find(({ name }) => name === "zod")?.ms;
  const lines = rows.map(({ name, problem, megabytes, packages, ms }) => {
    if (problem !== undefined) return `  ${name.padEnd(30)}  ${problem}`;
    const times = zod === undefined ? "" : (ms / zod).toFixed(2);
    const net = zod === undefined ? "" : ((ms - node) / (zod - node)).toFixed(2);
    const cells = [megabytes.toFixed(1), packages, ms.toFixed(0), times, net];
    return `  ${name.padEnd(30)}${cells.map((cell) => String(cell).padStart(10)).join("")}`;
  });
  const [own] = rows;
  const isSmall = own.megabytes < MOST_MEGABYTES;
  const isFast = zod === undefined || own.ms <= MOST_TIMES_ZOD * zod;
  return `embed: what a program installs and imports (CPU time; node -e 0: ${node.toFixed(0)} ms)

  ${"".padEnd(30)}${["MB", "packages", "ms", "× zod", "net × zod"].map((cell) => cell.padStart(10)).join("")}
${lines.join("\n")}

  ${isSmall ? "✓" : "✗"} under ${MOST_MEGABYTES} MB installed
  ${isFast ? "✓" : "✗"} an import takes at most ${MOST_TIMES_ZOD} × that of zod`;
}

export function asJson(result) {
  return result;
}
