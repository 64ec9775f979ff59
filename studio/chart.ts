import uPlot from "uplot";

export interface ChartSeries {
  title: string;
  /** One value for each label; null for a missing one. */
  values: readonly (number | null)[];
  /** The ends of the interval of each value. */
  low?: readonly (number | null)[];
  high?: readonly (number | null)[];
  /** `guide`: a line to compare with, without points. */
  kind: "bars" | "line" | "guide";
  /** A custom property of style.css, such as `--accent`. */
  color: string;
}

export interface ChartOptions {
  /** Of the horizontal axis, evenly spaced. */
  labels: readonly string[];
  series: readonly ChartSeries[];
  format(value: number): string;
  height: number;
  /** True for counts: the axis has no fractions. */
  isWhole?: boolean;
}

/** Draws a chart into an element. Returns a function that removes it. */
export function drawChart(element: HTMLElement, { labels, series, format, height, isWhole }: ChartOptions): () => void {
  const style = getComputedStyle(element);
  const color = (name: string) => style.getPropertyValue(name).trim();
  const font = `12px ${color("--sans")}`;
  const axis = { stroke: color("--soft"), font, ticks: { show: false } };
  const drawn = series.flatMap(({ values, low = [], high = [] }) => [...values, ...low, ...high]);
  const [lowest, highest] = [
    Math.min(0, ...drawn.map((value) => value ?? 0)),
    Math.max(...drawn.map((value) => value ?? 0)),
  ];
  const chart = new uPlot(
    {
      width: element.clientWidth,
      height,
      legend: { show: false },
      cursor: { show: false },
      scales: {
        x: { time: false, range: [-0.6, labels.length - 0.4] },
        y: { range: () => [lowest * 1.1, Math.max(highest * 1.1, Number.EPSILON)] },
      },
      axes: [
        {
          ...axis,
          size: 28,
          grid: { show: false },
          splits: () => pickLabels(labels.length, element.clientWidth),
          values: (_, splits) => splits.map((at) => labels[at] ?? ""),
        },
        {
          ...axis,
          size: 56,
          grid: { stroke: color("--line"), width: 1 },
          ...(isWhole ? { incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000] } : {}),
          values: (_, splits) => splits.map(format),
        },
      ],
      series: [
        {},
        ...series.map((one) => ({
          label: one.title,
          stroke: color(one.color),
          width: one.kind === "line" ? 2 : one.kind === "guide" ? 1 : 0,
          points: { show: one.kind === "line", size: 6, fill: color("--paper") },
          ...(one.kind === "bars"
            ? { fill: color(one.color), paths: uPlot.paths.bars?.({ size: [0.6, 28] }) ?? (() => null) }
            : {}),
        })),
      ],
      hooks: { draw: [(plot) => drawIntervals(plot, series, color)] },
    },
    [labels.map((_, at) => at), ...series.map(({ values }) => [...values])] as uPlot.AlignedData,
    element,
  );
  const observer = new ResizeObserver(() => chart.setSize({ width: element.clientWidth, height }));
  observer.observe(element);
  return () => {
    observer.disconnect();
    chart.destroy();
  };
}

/** Draws a vertical line from the low to the high end of each value. */
function drawIntervals(plot: uPlot, series: readonly ChartSeries[], color: (name: string) => string): void {
  const { ctx } = plot;
  for (const { low, high, color: name } of series) {
    ctx.strokeStyle = color(name);
    ctx.lineWidth = devicePixelRatio;
    for (const [at, from] of (low ?? []).entries()) {
      const to = high?.[at];
      if (from === null || to === null || to === undefined) continue;
      const x = plot.valToPos(at, "x", true);
      ctx.beginPath();
      ctx.moveTo(x, plot.valToPos(from, "y", true));
      ctx.lineTo(x, plot.valToPos(to, "y", true));
      ctx.stroke();
    }
  }
}

/** The room of a label, in pixels. */
const LABEL_WIDTH = 84;

/** Picks the labels that fit, the last one always. */
function pickLabels(count: number, width: number): number[] {
  const step = Math.max(1, Math.ceil(count / Math.max(1, Math.floor(width / LABEL_WIDTH))));
  return Array.from({ length: count }, (_, at) => at).filter((at) => (count - 1 - at) % step === 0);
}
