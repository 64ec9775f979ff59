import type { EvaluationSkill } from "./skills.ts";

/** Business, research, writing and daily life. */
export const WORK_SKILLS: readonly EvaluationSkill[] = [
  {
    name: "email-triage",
    description:
      "Sort an inbox by urgency, draft replies and find emails that wait for an answer. Use when the user is overwhelmed by email or wants replies drafted.",
    body: "Sort into answer today, this week, read, archive. Draft in the sender's language and tone. Never send. List threads where the user promised something. Newsletters are proposed for unsubscribing.",
    requests: [
      "300 unread messages after vacation, which ones need me today?",
      "I come back from parental leave and my inbox is a disaster. Tell me who is waiting for something from me, write short answers that I can send after a glance, put what was solved without me aside, and show me which senders I could do without.",
    ],
  },
  {
    name: "calendar-planning",
    description:
      "Plan schedules and find meeting times across calendars and time zones; write .ics invitations. Use when an appointment has to be found or moved.",
    body: "Ask for working hours of each participant. Protect focus blocks. Show each proposal in all local times. Recurring events follow daylight saving of the organizer. Write an ICS file with a stable UID so that updates replace it.",
    requests: [
      "find a slot next week for people in Tokyo, Berlin and Denver",
      "I have to bring eight people together for half a day, two of them work part time, one sits nine hours behind us, and the room is only free in the mornings. Propose three possibilities, say who would have to give up what, and prepare the invitation for the one we choose.",
    ],
  },
  {
    name: "contract-review",
    description:
      "Review contracts and terms for risks: liability, termination, renewal, data protection. Use when someone is about to sign an agreement, NDA or lease.",
    body: "Say first that this is not legal advice. Summarize who owes what. Mark unusual clauses against the market standard. Check caps on liability, automatic renewal, governing law. Propose wording. List questions for a lawyer.",
    requests: [
      "anything dangerous in this saas agreement before we sign?",
      "My landlord sent me a new lease with eleven pages and wants it back tomorrow. What am I committing myself to, what is unusual or to my disadvantage compared with what is common, when and how can I get out, and which passages should I ask to have changed? Suggest how they should read.",
    ],
  },
  {
    name: "market-research",
    description:
      "Research markets and competitors: size, pricing, positioning, sources. Use when the user asks who competes, how large a market is, or wants a competitor comparison.",
    body: "Define the market by the job and not by the product. Estimate size bottom up and top down. Compare features with evidence. Prices have a date. Each number has a source. Say what could not be found.",
    requests: [
      "who else sells scheduling software to dentists and what do they charge",
      "We consider building a tool for small breweries that plans their batches. Is there anybody who pays for that? I would like to know how many of them exist in Europe, what they use today, which vendors there are with their prices and weak spots, and where your figures come from.",
    ],
  },
  {
    name: "seo-audit",
    description:
      "Audit websites for search engine optimization: titles, structured data, crawling, internal links. Use when a page does not rank or organic traffic dropped.",
    body: "Check indexability first: robots, canonical, status codes. Titles below sixty characters, one h1. Structured data must match what is visible. Orphan pages. Core Web Vitals. Compare with the pages that rank.",
    requests: [
      "google traffic of our blog fell by half since the relaunch, why?",
      "Nobody finds our workshop when they look for bicycle repair in the city, although the competition with the ugly homepage comes first. Look at our pages, tell me what search engines do not understand about them, what text and markup is missing, and what brings most for a day of work.",
    ],
  },
  {
    name: "blog-writing",
    description:
      "Write blog posts and technical articles with a clear argument, outline and headline. Use when the user wants an article drafted or a draft improved.",
    body: "One claim per post. Outline before prose. The first paragraph says what the reader gets. Show code that runs. Cut adverbs. Three headline options. Read it aloud.",
    requests: [
      "draft a post about why we moved away from microservices",
      "I gave a talk about how we halved our cloud bill and people asked me to write it down. Here are the transcript and the numbers. Make an article of about 1,500 words out of it that engineers read to the end, with a title that is not clickbait, and tell me where you would put a diagram.",
    ],
  },
  {
    name: "social-media-posts",
    description:
      "Write posts for LinkedIn, Instagram, Mastodon and X with the right length and tone; plan a content calendar. Use when something should be announced on social networks.",
    body: "First line decides. One idea per post. No more than three hashtags. Alt text for pictures. Adapt per network and do not cross-post. Plan two weeks with a mix of themes.",
    requests: [
      "announce our new app version on linkedin and mastodon",
      "Our museum opens an exhibition about beekeeping in March. I am alone with the communication and need something to publish three times a week until then, for the network with the pictures and for the professional one, short and not embarrassing, with descriptions of the images for those who cannot see them.",
    ],
  },
  {
    name: "customer-support-replies",
    description:
      "Answer support tickets in a friendly and exact tone, with macros and escalation. Use when a customer complains or asks for help with a product.",
    body: "Repeat the problem in one sentence. Answer the question that was asked. Steps are numbered. Apologize once. Say what happens next and when. Escalate refunds above the limit. Never blame.",
    requests: [
      "angry customer whose parcel got lost twice, write the answer",
      "We have forty open tickets about yesterday's outage and two people to handle them. Write what we send to those who only lost time, what to those who lost data, and what to the three who threaten to cancel. Friendly, without excuses, with what we do now. And tell us which ones a manager should see.",
    ],
  },
  {
    name: "financial-modeling",
    description:
      "Build financial models: forecasts, cash flow, DCF valuation, scenarios. Use when a business plan needs numbers or a company has to be valued.",
    body: "Inputs, calculations and outputs are separate. Every assumption has a source and a range. Balance checks on each sheet. Three scenarios. Show the two assumptions that the result depends on most.",
    requests: [
      "how long does our cash last if sales grow 5 % a month and we hire four people",
      "The bank wants to see three years ahead before it lends us the money for the second bakery. Put revenue, staff, rent, ovens and interest together, a good case, a normal and a bad one, month by month for the first year, and show at which point we could not pay any more.",
    ],
  },
  {
    name: "tax-filing-helper",
    description:
      "Prepare income tax returns for freelancers: deductible expenses, depreciation, quarterly payments. Use when the user sorts receipts or asks what can be deducted.",
    body: "Say which country and year apply. Sort receipts by category. Mixed use is split with a documented share. Assets above the limit are depreciated. Keep a list of missing documents. Not a substitute for an advisor.",
    requests: [
      "which of these receipts can I deduct as a self employed photographer",
      "The deadline is at the end of the month and I have a shoe box. There are slips for trains, a camera for 2,400, my phone, half of my rent because I work at home, and meals with clients. Go through it with me, put everything where it belongs in the return, and tell me what is missing.",
    ],
  },
  {
    name: "literature-review",
    description:
      "Find, screen and summarize scientific papers; build evidence tables with citations. Use when the user asks what research says about a question.",
    body: "State the question and inclusion criteria. Search two databases. Screen by title, then abstract, then text. Table with method, sample, result, limits. Distinguish association from cause. Cite with DOI and never from memory.",
    requests: [
      "what do studies say about intermittent fasting and sleep quality",
      "For a grant application I have to show the state of knowledge on microplastics in drinking water. Find what was published since 2018, keep what measured something itself, put method, place, number of samples and result side by side, and say where the findings disagree and why that might be.",
    ],
  },
  {
    name: "statistics-advisor",
    description:
      "Choose and run statistical tests, power analyses and regressions in R or Python. Use when the user asks whether a result is significant or how large a sample must be.",
    body: "Ask for the design before the data. Plot first. Check assumptions. Report effect size and interval, not only p. Correct for multiple comparisons. Mixed models for repeated measures. State what was decided before seeing the data.",
    requests: [
      "is the difference between variant A and B significant, 1200 vs 1180 users",
      "We measured the blood pressure of 48 patients four times under two drugs, some missed a visit. My supervisor says that the simple test I used is wrong. Which method fits such data, how do I carry it out in R, how do I put the outcome into words, and would more people have been necessary?",
    ],
  },
  {
    name: "bioinformatics-pipelines",
    description:
      "Build sequencing analysis pipelines with Nextflow or Snakemake: alignment, variant calling, RNA-seq counts. Use when the user has FASTQ, BAM or VCF files.",
    body: "Check quality with FastQC and trim adapters. Align with BWA or STAR against a pinned reference. Mark duplicates. Call variants with GATK. Record versions of every tool. Run a tiny subset first.",
    requests: [
      "count reads per gene for 24 fastq samples and find the differential ones",
      "Our lab got exomes of six families back from the sequencing center, as raw reads on a disk. I need a reproducible way from there to a list of candidate mutations that only the affected children have, running on the university cluster, that my successor can repeat in two years.",
    ],
  },
  {
    name: "geospatial-analysis",
    description:
      "Analyze and map geographic data with GeoPandas and QGIS: projections, spatial joins, routing. Use when the user has GeoJSON, shapefiles, GPX tracks or coordinates.",
    body: "Check the coordinate reference system first; measure in a projected one. Validate geometries. A spatial join needs an index. Simplify for the web. Choropleths show rates and not counts.",
    requests: [
      "how many households live within 500 m of each bus stop? stops.geojson and census shapes attached",
      "The fire brigade wants to know which parts of the district cannot be reached in eight minutes. I have the stations, the road network with speed limits and the inhabitants per grid cell. Compute who lives outside, draw it so that the council understands it, and show what an additional station in the north would change.",
    ],
  },
  {
    name: "machine-learning-training",
    description:
      "Train and evaluate machine learning models with scikit-learn or PyTorch: features, cross-validation, overfitting, metrics. Use when a model should predict something or performs badly.",
    body: "Set the baseline before the model. Split by time or group where rows are related. Fix the metric by the cost of errors. Look at the learning curve. Tune on validation data only. Save the seed, the data version and the environment.",
    requests: [
      "my classifier has 99 % accuracy on train and 61 % on test, what now",
      "We have five years of records about machines in our plant, temperature, vibration, running hours, and when each broke down. I would like to know a week ahead which one is going to fail. What can be learned from that, how do we find out whether it is any good, and how bad is a false alarm?",
    ],
  },
  {
    name: "prompt-engineering",
    description:
      "Write and evaluate prompts for language models: instructions, examples, structured output, test sets. Use when an LLM answers unreliably or a prompt has to be improved.",
    body: "Collect twenty failing cases first. Say what to do and not what to avoid. Examples cover the borders. Ask for a schema. Change one thing at a time and measure. Put long context before the question.",
    requests: [
      "gpt returns broken json in 1 of 20 cases for our extraction, improve the instructions",
      "Our support bot makes things up when it does not find anything, and it is far too chatty. We change its text every week by gut feeling and then something else is worse. Help us write it in a way that it sticks to the documents, and set up a way to see whether a change was an improvement.",
    ],
  },
  {
    name: "ux-copy",
    description:
      "Write interface texts: buttons, error messages, empty states, onboarding. Use when wording in a product is confusing or has to be made consistent.",
    body: "Say what happens and what to do. Verbs on buttons. No blame in errors. Same word for same thing. Sentence case. Test with the longest language.",
    requests: [
      "our error dialogs say 'operation failed', write better ones",
      "In usability tests people did not dare to press the button because they did not know what it would do, and the page without any data just looked broken. Go through the labels and hints of the import wizard, propose words that tell what happens next, and use the same ones everywhere.",
    ],
  },
  {
    name: "brand-guidelines",
    description:
      "Apply a company's brand: colors, typography, logo use, tone. Use when documents, slides or web pages must follow the corporate design.",
    body: "Use the palette tokens and never eyeball a color. Logo needs clear space of its own height. Headlines in the display face. Tone: confident, plain. Check contrast. Ask before recoloring the logo.",
    requests: [
      "restyle this flyer so that it looks like it comes from our company",
      "An agency made a landing page for the summer campaign and marketing says that it does not look like us. Compare the fonts, colors, the spacing around the logo and the way it addresses people with our rules, list the deviations and correct what you can in the stylesheet.",
    ],
  },
  {
    name: "lesson-planning",
    description:
      "Plan lessons and workshops: goals, activities, timing, materials, assessment. Use when a teacher or trainer prepares a class.",
    body: "One goal that can be observed. Activate what they know. Change the form of work every fifteen minutes. Plan for the fast and the slow. End with a check. Materials list and a plan B without internet.",
    requests: [
      "90 minutes introduction to fractions for grade 5, with group work",
      "I was asked to train twenty accountants in writing safer passwords and recognizing fraud, half a day, some of them know everything better. What should they be able to do afterwards, what do we do in which order and for how long, and how do I find out whether it helped?",
    ],
  },
  {
    name: "flashcard-maker",
    description:
      "Turn texts into flashcards for Anki with spaced repetition: cloze deletions, images, tags. Use when someone wants to memorize or study material.",
    body: "One fact per card. Cloze for definitions in context. Ask both directions for vocabulary. Tag by chapter. Export as a tab separated file that Anki imports. Remove cards that can be answered without knowing.",
    requests: [
      "anki deck from chapter 4 of my anatomy script",
      "The exam on constitutional law is in seven weeks and I forget everything after a day. Here are my notes of the semester, 120 pages. Make something of it with which I can learn twenty minutes a day on the train, question and answer, not too long, sorted by topic, and leave out what is trivial.",
    ],
  },
  {
    name: "travel-itinerary",
    description:
      "Plan trips with routes, bookings, budgets and day plans. Use when the user travels somewhere and asks what to see or how to get there.",
    body: "Ask for dates, pace, budget and who travels. Cluster sights by district. Two fixed points a day at most. Opening days and reservations. Travel times are door to door. A rainy day alternative.",
    requests: [
      "four days in Lisbon with two kids, not too much walking",
      "We have three weeks in September, want to go from Hamburg to Sicily by train only, stay at least two nights everywhere, and my mother joins us for the last part and cannot climb stairs. Propose where to stop, what it costs, what has to be booked now, and what we do when it rains.",
    ],
  },
  {
    name: "meal-planner",
    description:
      "Plan meals for a week with recipes, nutrition and shopping lists. Use when the user asks what to cook or has dietary restrictions.",
    body: "Ask for allergies, equipment and time per day. Use leftovers on the next day. Shopping list by department with amounts. Protein and vegetables at each dinner. Two dishes that freeze well.",
    requests: [
      "what can I cook this week, vegetarian, gluten free, 30 min a day",
      "My father was told to eat less salt and has to watch his sugar, my daughter eats nothing green, and I only get to the stove at seven. Put together dinners from Monday to Sunday that work for all of us, with what I need to buy on Saturday, not more than 120 euros.",
    ],
  },
  {
    name: "workout-coach",
    description:
      "Create training plans for strength, running and mobility with progression and recovery. Use when someone wants to get fit or prepares for a race.",
    body: "Ask for injuries and present level. Increase volume by at most ten percent a week. Every fourth week is easy. Two strength sessions for runners. Explain each exercise. Pain is a reason to stop.",
    requests: [
      "couch to half marathon in 16 weeks, my knee is sensitive",
      "I am 52, sit all day and my back hurts. There is a pair of dumbbells and a mat in the cellar, and I have half an hour three times a week. What should I do in which order, how do I get better over the next three months, and how do I notice that I am overdoing it?",
    ],
  },
  {
    name: "game-design",
    description:
      "Design game mechanics, balance economies and write design documents for video and board games. Use when a game idea has to become playable.",
    body: "State the core loop in one sentence. Prototype on paper. Balance with a spreadsheet of costs and gains. Positive feedback needs a brake. Playtest with strangers and stay silent. One page before fifty.",
    requests: [
      "the late game of our card game is boring since the leader always wins, balance it",
      "My friends and I want to make a small cooperative thing for the phone, where three players run a lighthouse. We have pictures and no rules. What do people do every minute, what makes them come back, how does it get harder, and how do we try that out before we write any code?",
    ],
  },
  {
    name: "incident-postmortem",
    description:
      "Write blameless postmortems after outages: timeline, impact, root causes, follow-ups. Use when an incident is over and has to be documented.",
    body: "Timeline in UTC with sources. Impact in users and minutes. Ask how it made sense at the time. Contributing factors and not one root cause. Actions have owners and a type: prevent, detect, mitigate.",
    requests: [
      "write up yesterday's outage for the team without blaming anyone",
      "On Saturday a certificate expired and nobody could log in for three hours, the alarm went to a colleague who had left the company. Everything works again. We need a document for the management and for ourselves on what happened when, why nobody noticed, how many were affected, and what we change by when.",
    ],
  },
  {
    name: "smart-home-automation",
    description:
      "Write automations for Home Assistant: sensors, lights, heating, energy. Use when devices at home should react to something.",
    body: "Trigger, condition, action. Use helpers for state that survives a restart. Debounce motion sensors. Heating follows presence with a delay. Test with traces. Name entities by room and function.",
    requests: [
      "turn the heating down when nobody is home and all windows closed",
      "We have solar panels since spring, and the washing machine, the dishwasher and the car should run when the sun shines. The inverter and the plugs are already in Home Assistant. Write what is necessary so that it starts by itself when there is enough power, but the laundry is done by six in any case.",
    ],
  },
];
