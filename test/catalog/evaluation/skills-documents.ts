import type { EvaluationSkill } from "./skills.ts";

/** Documents, data and media. */
export const DOCUMENT_SKILLS: readonly EvaluationSkill[] = [
  {
    name: "spreadsheet-editor",
    description:
      "Create, edit and analyze Excel workbooks with formulas, formatting and pivot tables. Use when the user works with .xlsx or .xlsm files, needs a formula fixed, or wants a table turned into a chart.",
    body: "Open the workbook with openpyxl and keep existing cell styles. Write formulas instead of computed values so that the sheet stays live. Recalculate with LibreOffice in headless mode and scan for #REF! and #DIV/0! before you hand the workbook back. Pivot tables need a named range.",
    requests: [
      "the totals column in budget_2025.xlsx shows #REF! since I deleted a row, can you repair it",
      "Finance sent me the quarterly workbook and wants a summary tab by Friday. Take the raw transactions on the first sheet, add a pivot by cost center and month, highlight every cell that is more than ten percent over plan, and put a line chart of the monthly totals next to it. Keep the formulas live, they will paste new rows later. The file is in reports/q3.xlsx.",
    ],
  },
  {
    name: "pdf-forms",
    description:
      "Fill, flatten and extract fields of PDF forms. Use when a PDF has form fields, must be merged or split, or when text has to be pulled out of a scanned PDF.",
    body: "List the AcroForm fields first and show their names and types. Check boxes take the export value and not true. Flatten only at the end. A scan has no text layer: render the pages at 300 dpi and run OCR on them. Merge with qpdf, which keeps bookmarks.",
    requests: [
      "fill in the tax form 1040.pdf from my answers and make it non editable",
      "I have about forty scanned contracts in a folder and legal needs the signature dates. They are pictures, so there is nothing to select in them. Pull the text out of every page, find the line with the signing date and the counterparty, and give me one list. Some were scanned upside down.",
    ],
  },
  {
    name: "slide-builder",
    description:
      "Build PowerPoint presentations from an outline, with layouts, speaker notes and charts. Use when the user asks for slides, a deck, or a .pptx file.",
    body: "Start from the template's layouts and never place text boxes by hand where a placeholder exists. One idea per slide, at most six lines. Put the details into speaker notes. Render every slide to an image and look for text that overflows its box.",
    requests: [
      "turn these meeting notes into a ten slide deck for the board",
      "We pitch to the city council on Tuesday and all I have is a two page memo. Make a presentation out of it with our corporate template, one slide per argument, a chart for the ridership numbers and a closing slide with the ask. I will speak for twelve minutes, so put what I should say into the notes.",
    ],
  },
  {
    name: "word-documents",
    description:
      "Create and edit Word documents with styles, tables of contents, comments and tracked changes. Use when working with .docx files or when a document needs redlining.",
    body: "Edit the OOXML with tracked insertions and deletions so that the other side sees every change. Headings use built-in styles, which the table of contents needs. Comments are anchored to runs. Convert to PDF to check the page breaks.",
    requests: [
      "redline this nda.docx so the term is two years instead of five and comment why",
      "Our employee handbook is one huge document where every heading was made bold by hand. Give it real heading styles, generate the table of contents, number the sections, and keep all comments from HR in place. Send it back as a docx with changes visible so that the works council can follow.",
    ],
  },
  {
    name: "meeting-minutes",
    description:
      "Write minutes from meeting transcripts: decisions, action items with owners and due dates, open questions. Use when someone shares a transcript or recording of a call.",
    body: "Separate decisions from discussion. An action item has one owner, a verb and a date; mark it as unassigned when nobody took it. Quote a speaker only for decisions. Leave out small talk at the beginning.",
    requests: [
      "here is the zoom transcript from standup, who promised what until when?",
      "Attached is what the note taker recorded during yesterday's ninety minute architecture call. It is unreadable. I need a page that people who were absent can read: what was decided about the queue, what is still open, and a list of who does what by which day. Ignore the first ten minutes about holidays.",
    ],
  },
  {
    name: "csv-cleaning",
    description:
      "Clean messy CSV and tabular exports: duplicates, encodings, dates, inconsistent categories. Use when data has to be deduplicated, normalized or validated before an import.",
    body: "Sniff the delimiter and encoding. Report the null share and distinct values of each column before changing anything. Parse dates with an explicit format per source. Fuzzy-match company names with a threshold and write the merges to a review file.",
    requests: [
      "contacts.csv has the same people three times with different spelling, merge them",
      "The CRM export is a mess. Dates are in four formats, some rows are shifted by one column because of unescaped commas, country is sometimes DE and sometimes Germany, and half of the umlauts are broken. Make it importable again and tell me which rows you could not repair.",
    ],
  },
  {
    name: "chart-design",
    description:
      "Design clear charts and data visualizations with matplotlib or Vega-Lite. Use when numbers should be plotted, a graph is hard to read, or a figure is needed for a paper.",
    body: "Choose the mark by the question: change over time is a line, comparison is a bar, distribution is a histogram. Label lines directly instead of a legend. Start bars at zero. Use a color-blind safe palette and check it in grayscale.",
    requests: [
      "plot the latency histogram of both releases so that one sees the difference",
      "The reviewers complained that figure 3 is unreadable: seven overlapping curves, a rainbow palette and a legend that covers the data. Redo it from the measurements in results/, sized for a single column, readable in black and white, and export a vector version.",
    ],
  },
  {
    name: "video-editing",
    description:
      "Cut, convert and compress video with ffmpeg: trimming, subtitles, GIFs, audio extraction. Use when the user has .mp4 or .mov files or wants a clip.",
    body: "Seek before the input for speed and after it for exact frames. Copy streams when only the container changes. Burn subtitles with the subtitles filter. Two-pass encoding hits a size limit. Use palettegen for GIFs.",
    requests: [
      "make a gif of seconds 12 to 18 of demo.mov, under 5 MB",
      "The webinar recording is two gigabytes and the portal takes at most 500 MB. Cut off the silence at the beginning and the questions at the end, burn the captions from talk.srt into the picture, and shrink it so that it can be uploaded. The sound should also be there as a separate mp3 for the podcast.",
    ],
  },
  {
    name: "image-processing",
    description:
      "Resize, crop, convert and optimize images in bulk; remove backgrounds; strip EXIF data. Use when the user has photos, PNG, JPEG, WebP or HEIC files.",
    body: "Use ImageMagick or sharp. Auto-orient before stripping EXIF. Resize with Lanczos, sharpen lightly after. WebP at quality 80 is usually a quarter of the size. Never upscale without asking.",
    requests: [
      "shrink all product photos to 1200 px and get rid of the gps info in them",
      "Our shop loads slowly because somebody uploaded straight from the phone. There are 800 heic files in uploads/. Convert them to something browsers show, three sizes each for the responsive markup, white background cut out for the catalog shots, and keep the file names.",
    ],
  },
  {
    name: "audio-transcription",
    description:
      "Transcribe speech to text with Whisper, with speaker labels and timestamps. Use when the user has an audio file, a voice memo, an interview or a podcast episode.",
    body: "Split long recordings at silences. Choose the model size by the language: small is enough for clean English. Run diarization afterwards and align it with the words. Write SRT and plain text. Mark passages with low confidence.",
    requests: [
      "type up this voice memo interview.m4a, two speakers",
      "For my thesis I recorded eleven conversations with nurses, about an hour each, partly in dialect. I need the words as text with who is speaking and at what minute, so that I can code them. Names of patients must not be in the result. The recordings are wav files on the share.",
    ],
  },
  {
    name: "latex-papers",
    description:
      "Write and fix LaTeX papers: templates, bibliographies, figures, compile errors. Use when the user has .tex or .bib files or submits to a journal or conference.",
    body: "Compile with latexmk and read the first error only. Use biblatex where the template allows it. Floats go near their first mention. Undefined references need a second run. Check the page limit with and without references.",
    requests: [
      "my paper.tex does not compile since I added the algorithm, undefined control sequence",
      "Our manuscript was rejected at one venue and goes to another, which means a different template, two columns instead of one, eight pages instead of twelve, author-year citations instead of numbers. Move it over, tell me what no longer fits, and make sure that no reference is shown as a question mark.",
    ],
  },
  {
    name: "ebook-publishing",
    description:
      "Produce EPUB and Kindle books from Markdown or Word manuscripts, with covers, metadata and validation. Use when an author wants to publish an ebook.",
    body: "Split at chapter headings. Write the package metadata: title, author, ISBN, language. Embed fonts only with a license. Validate with epubcheck and look at the result in two readers. Footnotes become pop-ups.",
    requests: [
      "make an epub from the chapters in manuscript/ with this cover",
      "I finished my novel and want to sell it on the usual stores myself. It is one long Word file with scene breaks made of asterisks and footnotes. The store's validator rejects what my word processor exports. Produce a file they accept, with a proper chapter navigation and the ISBN.",
    ],
  },
  {
    name: "translation-review",
    description:
      "Review translated product texts for meaning, terminology and tone; keep placeholders intact. Use when localized strings, .po or .xliff files have to be checked.",
    body: "Compare segment by segment with the source. Placeholders and markup must be the same set. Check the glossary terms. Address form is consistent in one product. Report severity: wrong meaning, terminology, style.",
    requests: [
      "check whether the french strings still say what the english ones do and no {placeholder} is lost",
      "An agency delivered the Portuguese and Polish versions of our app and users write that some buttons make no sense. Go through the localization files, compare each entry with the original, look for terms that are not in our glossary, and give me a table of what is wrong and how bad.",
    ],
  },
  {
    name: "survey-analysis",
    description:
      "Analyze survey results: response rates, cross tabulation, significance, coding of free text answers. Use when the user has questionnaire data or asks what respondents said.",
    body: "Check who did not answer before what was answered. Weight only with known margins. Give confidence intervals for shares. Code open answers with two passes and report agreement. Never compare groups below thirty people.",
    requests: [
      "what did people answer in the employee questionnaire and is the difference between offices real",
      "We asked 2,300 customers twelve questions plus one open field where they could write what annoys them. Tell me which groups are unhappy, whether that is more than noise, and sort the open answers into maybe ten themes with an example each. Management will ask how many did not take part.",
    ],
  },
  {
    name: "invoice-generator",
    description:
      "Create invoices and credit notes with tax, numbering and payment terms. Use when a customer is to be billed or a time sheet turned into an invoice.",
    body: "Numbers are consecutive and never reused; a mistake is corrected by a credit note. Reverse charge needs both VAT ids. Round per line. Add bank details, due date and the period of service. Electronic invoices follow EN 16931.",
    requests: [
      "bill Acme for 32 hours at 95 euros, net 30 days, reverse charge",
      "I am a freelancer and behind with my paperwork. My time tracker has the hours of three clients for October, two of them abroad. Write what I have to send each of them, with consecutive numbers after 2025-118, the right VAT treatment and my account, and one of them got a wrong amount last month that I have to correct.",
    ],
  },
  {
    name: "resume-writer",
    description:
      "Write and tailor resumes, CVs and cover letters to a job advertisement. Use when someone applies for a job or wants a LinkedIn profile improved.",
    body: "Read the advertisement for its five must-haves and mirror their words. Each bullet is an action with a number. One page below ten years of experience. The cover letter says why this employer. No tables: applicant tracking systems drop them.",
    requests: [
      "tailor my cv to this job ad for a site reliability engineer",
      "After nine years as a nurse I want to move to a medical device company as an application specialist. Here is the advertisement and here is what I have done so far. Write the application so that a person in hiring sees the fit in half a minute, plus a letter of one page that does not sound like everybody's.",
    ],
  },
];
