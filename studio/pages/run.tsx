import { Empty, Page } from "../components.tsx";
import type { StudioReport } from "../reports.ts";

export function RunPage(_: { id: string; studio: StudioReport }) {
  return (
    <Page title="RunPage">
      <Empty title="Not built yet." />
    </Page>
  );
}
