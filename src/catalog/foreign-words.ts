/**
 * Function words and the most frequent words of requests in languages other than English, for the ranking alone. In an English
 * catalog such a word is rare, so it would count more than any other.
 */
const LANGUAGES: readonly ReadonlySet<string>[] = [
  `aber alle allen als also am an auch auf aus bei beim bin bis bitte brauche da damit dann das dass dein dem den der des die dies
   diese diesem diesen dieser dieses doch du durch ein eine einem einen einer eines er erstelle es etwas euch für gern gibt hab
   habe haben hat hier hilf ich ihm ihr im immer in ins ist ja jede jeden jeder jetzt kann kannst kein keine können könntest
   machen mal man mehr mein meine meinem meinen meiner mich mir mit möchte muss müssen nach nicht noch nur ob oder ohne sein seine
   sich sie sind so soll sollen sollte über um und uns unser unsere unserem unseren unserer unter vom von vor wäre war was weil
   wenn werden wie wieder will wir wird wo wurde zu zum zur zwei zwischen`,
  `a al algo así aún como con cada cómo cual cuando cuál de del desde donde dos el ella ellos en entre era es esa ese eso esta
   estas este esto estos está están favor fue hace hacer hacia hasta hay he la las le les lo los más me mi mis mucho muy necesito
   ni no nos nuestra nuestro nuestros o otra otro para pero poder por porque puede puedes que quiero qué se sea ser si sin sobre
   son su sus sí también tan te tengo tiene tienen todas todo todos tu tus un una uno unos y ya yo ayúdame`,
  `à au aux avec ce ces cette ceci cela c'est dans de des du elle en est et être fait faire il ils je la le les leur lui ma mais
   me mes moi mon ne nos notre nous on ou où par pas peux peut plus pour pourrais qu que quel quelle qui sa sans se ses si son
   sont sur ta te toi ton tu un une veux vos votre vous y`,
  `a ao aos as com como da das de do dos e ela ele em entre era essa esse esta este eu foi há isso isto já mais mas me meu minha
   na nas no nos não o os ou para pela pelo por posso preciso que quero se sem ser seu sua são também tem um uma você`,
  `a al alla alle che chi ci come con da dal dalla dei del della delle di e è gli ha ho i il in io la le lo ma mi mia mio nel
   nella non per perché più puoi quale quando quello questa questo se senza si sono su sul sulla tra tu un una uno voglio`,
].map((list) => new Set(list.split(/\s+/)));

/** How many of its words make a text one of that language. */
const ENOUGH = 2;

/** Returns whether a word is a function word in the language of the text. Contract: the word is folded. */
export function isForeignFunctionWord(text: string): (word: string) => boolean {
  const sample = text.slice(0, LONGEST_SAMPLE).toLowerCase();
  const words = new Set(sample.split(SEPARATORS));
  const english = countOf(ENGLISH, words);
  let [best, most] = [LANGUAGES[0] as ReadonlySet<string>, 0];
  for (const language of LANGUAGES) {
    const found = countOf(language, words);
    if (found > most) [best, most] = [language, found];
  }
  return most >= ENOUGH && most > english ? (word) => best.has(word) : () => false;
}

const LONGEST_SAMPLE = 2000;
/** Letters of Western European languages; classes of Unicode would cost milliseconds at the start. */
const SEPARATORS = /[^a-z\xdf-\xff']+/;
const ENGLISH = new Set(
  "the of and to is it that for with this on are was be my i we our you an what how can please".split(" "),
);

function countOf(language: ReadonlySet<string>, words: ReadonlySet<string>): number {
  let count = 0;
  for (const word of words) if (language.has(word)) count++;
  return count;
}
