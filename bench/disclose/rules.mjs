import { CLIENT_LISTINGS, LISTING_CLIENTS, simulateClientListing } from "../../src/catalog/client-listings.ts";

/** The listing rules of clients, from the table that `skillet explain --as` uses. No client is run. Only names and descriptions are counted. */
export const CLIENT_RULES = LISTING_CLIENTS.map((id) => ({
  name: `${CLIENT_LISTINGS[id].title}'s rule`,
  list: (skills) => simulateClientListing(id, skills).flatMap(lineOf).join("\n"),
}));

function lineOf({ name, description, shown }) {
  if (shown === "dropped") return [];
  return description === "" ? `- ${name}` : `- ${name}: ${description}`;
}
