const TIMES_BARE = 3;
const PLUS_MS = 10;
const TIMES_BASE = 1.3;
const LAYER_MS = 20;
const FIND_MS = 100;
/** In KB per run. V8's heap is steadier than the process's memory. */
const GROWN_RSS = 10;
const GROWN_HEAP = 1;

/** Judges the goals. A goal has its measured value and whether it is met, or neither if it was not run. */
export function judge({ absent, starts, crowd, layers, workspace }) {
  if (absent) return [];
  return [
    ...Object.keys(starts.bounds).map((user) => start(starts.rows, user)),
    ...crowd.rows.filter(({ name }) => name.startsWith("skillet")).map((row) => allSucceed(row, crowd)),
    ...ofLayers(layers),
    ...Object.entries(crowd.memory).flatMap(([user, rows]) => leaks(rows.slice(-2), user)),
    ...ofWorkspace(workspace?.rows ?? []),
  ];
}

function start(rows, user) {
  const [bare, own] = ["bare", "skillet"].map((way) => rows.find(({ name }) => name === `${way}, ${user}`));
  const most = TIMES_BARE * bare.ms + PLUS_MS;
  const text = `${user}: the median at most ${TIMES_BARE} × bare + ${PLUS_MS} ms`;
  return { text, measured: `${own.ms.toFixed(1)} of ${most.toFixed(1)} ms`, isMet: own.ms <= most };
}

/** Measured if another build is available for comparison. */
function ofWorkspace(rows) {
  const bases = rows.filter(({ name }) => name.startsWith("base, 1,000 files"));
  if (bases.length === 0) return [{ text: `1,000 files within ${TIMES_BASE} × of another build (SKILLET_BASE)` }];
  return bases.map((base) => {
    const own = rows.find(({ name }) => name === base.name.replace("base", "skillet"));
    const text = `${own.name}: at most ${TIMES_BASE} × the other build`;
    return { text, measured: `${(own.ms / base.ms).toFixed(2)} ×`, isMet: own.ms <= TIMES_BASE * base.ms };
  });
}

function allSucceed({ name, once, waves }, { atOnce }) {
  const failed = once.failed + waves.failed;
  const text = `${name}: ${atOnce} at once, then ${waves.runs} in waves, all succeed`;
  return { text, measured: `${failed} failed`, isMet: failed === 0 };
}

function ofLayers({ absent, first, rows }) {
  const adds = `a cached layer adds less than ${LAYER_MS} ms`;
  const found = `the layer is found in less than ${FIND_MS} ms, the first time too`;
  if (absent) return [{ text: adds }, { text: found }];
  const row = (name) => rows.find((one) => one.name === name);
  const more = row("skillet, layer").ms - row("skillet").ms;
  const most = Math.max(first, row("findPackageRoot").most);
  return [
    { text: adds, measured: `${more.toFixed(1)} ms`, isMet: more < LAYER_MS },
    { text: found, measured: `${most.toFixed(1)} ms at most`, isMet: most < FIND_MS },
  ];
}

/** The first runs fill caches for the next ones; only the growth of the last runs is a leak. */
function leaks([before, after], user) {
  const runs = after.runs - before.runs;
  const [rss, heap] = ["rss", "heap"].map((key) => ((after[key] - before[key]) * 1024) / runs);
  const more = after.descriptors - before.descriptors;
  return [
    {
      text: `${user}: a run of the last ${runs} leaves at most ${GROWN_RSS} KB of memory, ${GROWN_HEAP} of it V8's`,
      measured: `${rss.toFixed(2)} and ${heap.toFixed(2)} KB`,
      isMet: rss <= GROWN_RSS && heap <= GROWN_HEAP,
    },
    {
      text: `${user}: they leave no descriptor, folder, cgroup or process`,
      measured: `${more} and ${after.left}`,
      isMet: more <= 0 && after.left === 0,
    },
  ];
}
