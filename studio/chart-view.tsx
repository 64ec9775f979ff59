import { useEffect, useRef, useState } from "preact/hooks";
import { escapeLine } from "../src/util/untrusted-text.ts";
import type { ChartOptions, ChartSeries } from "./chart.ts";

interface ChartViewProps extends Omit<ChartOptions, "height"> {
  title: string;
  height?: number;
}

/** A chart with its values as a table for screen readers, which a canvas cannot give. */
export function ChartView({ title, labels, series, format, height = 160, isWhole = false }: ChartViewProps) {
  const element = useRef<HTMLDivElement>(null);
  const theme = useTheme();
  const shown = series.flatMap((one) => (one.kind === "guide" ? [] : { ...one, title: escapeLine(one.title) }));
  useEffect(() => {
    let remove: (() => void) | undefined;
    let isOver = false;
    void import("./chart.ts").then(({ drawChart }) => {
      if (!isOver && element.current) remove = drawChart(element.current, { labels, series, format, height, isWhole });
    });
    return () => {
      isOver = true;
      remove?.();
    };
  }, [JSON.stringify([labels, series]), height, theme]);
  return (
    <figure class="chart">
      <figcaption>
        {title}
        {shown.map((one) => (
          <span key={one.title} class="legend">
            <i style={{ background: `var(${one.color})` }} />
            {one.title}
          </span>
        ))}
      </figcaption>
      <div ref={element} aria-hidden="true" style={{ minHeight: `${height}px` }} />
      <table class="hidden">
        <caption>{title}</caption>
        <thead>
          <tr>
            <th scope="col">When</th>
            {shown.map((one) => (
              <th key={one.title} scope="col">
                {one.title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {labels.map((label, at) => (
            <tr key={at}>
              <th scope="row">{label}</th>
              {shown.map((one) => (
                <td key={one.title}>{formatValue(one, at, format)}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </figure>
  );
}

function formatValue({ values, low, high }: ChartSeries, at: number, format: (value: number) => string): string {
  const [value, from, to] = [values[at], low?.[at], high?.[at]];
  if (value === null || value === undefined) return "none";
  const interval = typeof from === "number" && typeof to === "number" ? `, ${format(from)} to ${format(to)}` : "";
  return `${format(value)}${interval}`;
}

/** Changes with the colors of the page, so that charts are drawn again. */
function useTheme(): string {
  const read = () => getComputedStyle(document.documentElement).getPropertyValue("--paper");
  const [theme, setTheme] = useState(read);
  useEffect(() => {
    const update = () => setTheme(read());
    const media = matchMedia("(prefers-color-scheme: dark)");
    media.addEventListener("change", update);
    const observer = new MutationObserver(update);
    observer.observe(document.documentElement, { attributeFilter: ["data-theme"] });
    return () => {
      media.removeEventListener("change", update);
      observer.disconnect();
    };
  }, []);
  return theme;
}
