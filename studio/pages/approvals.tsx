import { Empty, Page } from "../components.tsx";
import type { StudioReport } from "../reports.ts";

export function ApprovalsPage(_: { studio: StudioReport }) {
  return (
    <Page title="ApprovalsPage">
      <Empty title="Not built yet." />
    </Page>
  );
}
