import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";

/** Goes to a view of the page. `replace`: does not add an entry to the history. */
export function navigate(to: string, { replace = false } = {}): void {
  history[replace ? "replaceState" : "pushState"](null, "", to);
  dispatchEvent(new Event("skillet:navigate"));
}

/** Returns the present view, and follows it. */
export function useLocation(): URL {
  const [href, setHref] = useState(location.href);
  useEffect(() => {
    const update = () => setHref(location.href);
    addEventListener("popstate", update);
    addEventListener("skillet:navigate", update);
    return () => {
      removeEventListener("popstate", update);
      removeEventListener("skillet:navigate", update);
    };
  }, []);
  return new URL(href);
}

/** Returns the value of a parameter of the address, and a function that changes it. */
export function useParameter(name: string): [value: string, set: (value: string) => void] {
  const url = useLocation();
  return [
    url.searchParams.get(name) ?? "",
    (value) => {
      const next = new URL(location.href);
      if (value === "") next.searchParams.delete(name);
      else next.searchParams.set(name, value);
      navigate(next.pathname + next.search, { replace: true });
    },
  ];
}

interface LinkProps {
  to: string;
  class?: string;
  children: ComponentChildren;
  [attribute: `aria-${string}` | `data-${string}`]: string | number | undefined;
}

/** A link to a view of this page. */
export function Link({ to, children, ...attributes }: LinkProps) {
  const follow = (event: MouseEvent) => {
    if (event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    navigate(to);
    scrollTo(0, 0);
  };
  return (
    <a href={to} onClick={follow} {...attributes}>
      {children}
    </a>
  );
}
