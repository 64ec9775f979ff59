/** Small talk, general knowledge, coding without a matching skill, and other languages: 200 prompts that need no skill. */
export const UNRELATED_PROMPTS: readonly string[] = `
hi
hello there, how are you today?
good morning
thanks, that was great
thank you so much for your help!
ok
yes please
no, the other one
go on
continue
what do you mean?
can you repeat that?
that is not what I meant
sorry, my mistake
never mind
see you tomorrow
have a nice weekend
lol
great, let's do that
hmm, I am not sure
tell me a joke
tell me another one about penguins
who are you?
what is your name?
do you like music?
are you a robot?
how old are you?
I am bored
I am tired today
my cat is asleep on the keyboard
it rains again
what time is it?
happy birthday to me
do you dream?
you are funny
I had a terrible day
wish me luck for tomorrow
what should I have for lunch, pizza or sushi?
sing something
I love you
what is the capital of Mongolia?
who wrote Don Quixote?
how tall is Mount Kilimanjaro?
when did the Berlin Wall fall?
why is the sky blue?
how many moons does Jupiter have?
what is the boiling point of nitrogen?
who painted the Mona Lisa?
explain photosynthesis to a child
what is the difference between a crocodile and an alligator?
how do bees make honey?
who won the world cup in 1998?
what does the word serendipity mean?
how do you say goodbye in Finnish?
what is the population of Peru?
who was the first woman in space?
why do cats purr?
how far away is the moon?
what causes thunder?
is a tomato a fruit?
what is the square root of 289?
what is 17 times 23?
convert 75 degrees Fahrenheit to Celsius
how many ounces are in a pound?
what year did the Titanic sink?
who discovered penicillin?
what is the longest river in Africa?
how does a rainbow form?
which planet is the hottest?
what is the meaning of life?
who is the president of France?
what language do they speak in Brazil?
how long do elephants live?
what are the primary colors?
why do leaves turn red in autumn?
how do vaccines work?
what is the fastest animal on earth?
when was the printing press invented?
how do airplanes stay in the air?
what is dark matter?
what is the plot of Hamlet?
who sang Bohemian Rhapsody?
name three rivers in Spain
what is a haiku?
write a haiku about snow
write a limerick about a sailor
write a bedtime story about a dragon who is afraid of the dark
compose a poem for my grandmother's eightieth
rhyme something with orange
give me a riddle
what is a good name for a goldfish?
what should I name my new puppy?
how do I get red wine out of a carpet?
how do I tie a bow tie?
how can I fall asleep faster?
how do I stop hiccups?
my neighbor is too loud, what can I say to him?
how do I keep basil alive on the balcony?
how often should I water a cactus?
what is a nice gift for a retired teacher?
how do I fold a fitted sheet?
what wine goes with salmon?
how do I whistle with two fingers?
how do I remove a splinter?
is it safe to swim after eating?
what do I wear to a garden wedding?
how do I jump start a car?
my bicycle chain squeaks
how do I sharpen a kitchen knife?
how do I teach my dog to sit?
how do I paint a ceiling without streaks?
what is the best way to peel garlic?
reverse a linked list in C
what is the difference between a stack and a heap?
how do I sort an array in Java?
write fizzbuzz in Haskell
what does the keyword volatile do?
explain monads
how do I declare a pointer to a function?
what is the time complexity of quicksort?
write a function that checks whether a number is prime
how do I concatenate two strings in Lua?
what is a closure?
how do I center a div?
what does 0x1F equal in decimal?
print the Fibonacci sequence in Perl
how do I exit vim?
what is the difference between let and var?
swap two variables without a third one
what is a deadlock?
what does the asterisk mean in front of a parameter?
how do I read a line from standard input in Fortran?
write a bubble sort in assembly
how do I round to two decimals in Pascal?
what is tail recursion?
implement a binary tree in Scheme
what is the ternary operator?
how do I convert a character to its ASCII code?
what is big endian?
how does garbage collection work?
write a tic tac toe board in Prolog
what is an iterator?
Guten Morgen!
Wie geht es dir heute?
Danke, das war alles.
Wie spät ist es in Lissabon?
Erzähl mir einen Witz.
Was ist die Hauptstadt von Kanada?
Warum ist der Himmel blau?
Wie hoch ist der Eiffelturm?
Könntest du das bitte noch einmal kürzer erklären?
Ich bin müde und gehe jetzt schlafen.
Was soll ich heute Abend anziehen?
Wer hat die Zauberflöte geschrieben?
Schönes Wochenende!
Wie lange lebt eine Schildkröte?
Mein Hund bellt die ganze Nacht.
Hola, ¿qué tal?
Muchas gracias por todo.
¿Cuál es la capital de Australia?
Cuéntame un chiste.
¿Por qué ladran los perros?
¿Quién pintó el Guernica?
Buenas noches, hasta mañana.
¿Cuántos años vive un loro?
No, me refería al otro.
¿Qué significa la palabra ojalá?
Bonjour, ça va ?
Merci beaucoup !
Pourquoi la mer est-elle salée ?
Raconte-moi une blague.
Qui a écrit Les Misérables ?
Ciao, come stai?
Grazie mille!
Qual è il fiume più lungo del mondo?
Bom dia, tudo bem?
Obrigado, até amanhã.
こんにちは
ありがとうございます
今日はいい天気ですね
日本で一番高い山は何ですか
面白い話をして
おやすみなさい
猫はなぜ喉を鳴らすのですか
你好
谢谢你的帮助
今天天气怎么样？
中国最长的河是哪一条？
讲个笑话吧
晚安
天空为什么是蓝色的？
안녕하세요
고마워요, 내일 봐요
한국에서 가장 높은 산은 무엇인가요?
Привет, как дела?
Спасибо большое!
Почему трава зелёная?
مرحبا كيف حالك
تصبح على خير
สวัสดีครับ
नमस्ते, आप कैसे हैं?
Dzień dobry, co słychać?
Hej, hur mår du?
`
  .trim()
  .split("\n");
