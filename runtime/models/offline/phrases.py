# ruff: noqa: E501 - a row of the table is one line
r"""How people ask, remember, decide and prefer: one table of patterns for twelve languages.

A row is a kind and a pattern; rows of a kind add up. Patterns are written for `plain` text: lower case, simple
marks, simplified Chinese. Each is linear in the length of a sentence: no repeated group may match the empty
string, and every open run has an upper bound.
"""

from __future__ import annotations

import re

from nacre.runtime.models.offline.sentences import ONE_WRITING

_TABLE = r"""
# English
polite     (?:hey|hi|ok(?:ay)?|so|and|also|oh|please|pls)[,!]?\s+|(?:can|could|would|will) you (?:please )?
keep       remember(?!\s+(?:to|when|wh?at|who[ms]?e?|where|which|how|why|if|me)\b)(?:\s+(?:that|this|it|the following))?\b
keep       (?:do not|don'?t|never) forget(?!\s+to\b)(?:\s+(?:that|this|about))?\b
keep       (?:keep|bear)(?: it| this)? in mind(?:\s+that)?\b|(?:make|take|leave) a note(?:\s+(?:that|of|about))?\b
keep       (?:write|jot|note) (?:this |that |it )?down(?:\s+that)?\b|note(?:\s+that\b|\s+to self\b|\s*:)
keep       (?:save|store) this\b|add (?:this )?to (?:my|your|the) (?:notes|memory)\b|for the record\b|memo(?:ry)?\s*:
keep_whole (?:remember|remind me|(?:do not|don'?t) forget) to\b
question   (?:what|when|who|whom|whose|where|which|why|how)(?:'(?:s|re|d|ll))?\b
question   (?:did|do|does|is|are|was|were|am|can|could|will|would|should|have|has|had)\s+(?:i|you|we|he|she|it|they|my|your|our|his|her|their|the|this|that|there|any|anyone|somebody)\b
look_up    (?:do|can|could) you (?:remember|recall|know|tell me|find|look up|search|show me)\b|tell me\b
look_up    remind me (?:about|of|what|when|who|where|which|how|again)\b|(?:recall|show me|list|look up|search|find)\b
look_up    remember (?:when|what|who|whom|whose|where|which|how|why|if)\b
look_up    (?:look|check)(?:\s+(?:in|through|up|for|my|your|the|notes|memory|memories)){1,5}\b
greeting   (?:hi|hello|hey|hiya|howdy|greetings|good (?:morning|afternoon|evening|day)|yo)(?: there| nacre| again| all)?
greeting   (?:how are you|how is it going|how's it going|what's up|nice to meet you)(?: today| doing)?
thanks     (?:thanks|thank you|thx|cheers|great|perfect|ok(?:ay)?|cool|nice)(?: a lot| so much| very much|,? that's all)?
farewell   bye|goodbye|good night|see you(?: later| soon| tomorrow)?
about      \b(?:who|what) are you\b|\bwhat can (?:you|i) (?:do|ask|say)\b|\bwhat do you do\b|^(?:help|menu|commands)\W*$
about      \bhow (?:do|does|can) (?:i|you|this|it|one) (?:work|use you|use this|connect|start)\b
about      \bare you (?:an? )?(?:real |human|ai\b|bot\b|robot|llm|gpt|chatgpt|claude|language model|model\b|person|offline)
about      \b(?:connect|switch on|set up|configure|use|add) (?:a |an |the |another |real |language ){1,3}model\b
forget     ^(?:please )?(?:forget|delete|erase)\s+(?:that|this|about|what|everything|my|the|it|all)\b
request    (?:please|pls|can you|could you|would you|will you)\b
supposed   (?:if|when|unless|suppose|imagine|maybe|perhaps)\b
decision   ^(?:decision|decided)\s*:|\b(?:they|the (?:team|board|group|committee)) (?:have |has )?(?:decided|agreed|chose)\b
decision   \b(?:we|i)(?:'ve| have| had)?(?: just| finally| now| all)? (?:decided|agreed|chose|chosen|settled on|picked|resolved)\b
decision   \b(?:we|i)(?:'ll| will|'re going to| are going to|'m going to)(?: now)? (?:use|go with|ship|switch to|move to|drop|stick (?:with|to)|adopt|migrate)\b
decision   \b(?:our|my|the) (?:final )?decision (?:is|was)\b|\bit (?:is|was) (?:decided|agreed)\b
decision   \b(?:let's|lets) (?:go with|use|stick (?:with|to)|choose|pick|settle on)\b
preference \bi(?:'d| would)?(?: really| always| usually| strongly| generally| much)? prefer\b
preference \bmy (?:preference|favou?rite)\b
preference \bi (?:really |always |absolutely )?(?:like|love|hate|dislike|enjoy|can'?t stand)\s+(?!it\b|this\b|that\b|you\b)
preference \bi (?:don'?t|do not|never|always) (?:like|eat|drink|use|work|take|want|wear|watch)\b(?!\s+(?:it|this|that)\b)
preference \bi(?:'m| am) (?:allergic|vegetarian|vegan|left-handed|lactose|colou?r-?blind)\b|\bfrom now on\b
constraint \b(?:always|never|at most|at least|no more than|must(?: not|n't)?|instead of|rather than|keep it (?:short|simple|brief))\b
constraint \b(?:do not|don'?t) (?:use|touch|change|add|send|write|delete|commit)\b|\bplease (?:use|keep|answer|write|avoid)\b
name       \bmy name(?: is|'s)\b|\bi(?:'m| am) called\b|\bcall me\b(?! (?:back|later|when|at|on|tomorrow|today|if|as soon)\b)
blocked    \b(?:blocked (?:by|on)|stuck (?:on|with)|waiting (?:for|on)|(?:cannot|can'?t) (?:continue|proceed))\b
blocked    \b(?:does(?:n't| not) work|failed|fails)\b
ask        ^(?:please|pls|todo\b|to do\b|next,?\s|action item|reminder|(?:can|could|would|will) you\b)|\bto-?do:
ask        \b(?:i|we) (?:still |also )?(?:need|have|want|must|ought) (?:you )?to\b|\b(?:i|we) (?:must|should)\b
ask        \bneeds? to be\b|\bstill (?:open|missing|to do|need)
ask        \b(?:remind me|let me know|remember to|(?:don'?t|do not) forget to)\b
person     [\w.+-]{1,64}@[\w-]{1,63}\.[\w.-]{2,63}|\b(?:is|are) (?:my|our) (?:new |old )?[a-z]+\b
person     \b(?:is called|is named|whose name)\b
person     \bmy (?:(?:new|old|best|older|younger|ex|late)[ -])?(?:wife|husband|partner|girlfriend|boyfriend|sister|brother|mother|father|mom|mum|dad|son|daughter|child|kid|aunt|uncle|cousin|grand(?:mother|father)|friend|boss|manager|colleague|coworker|teammate|neighbou?r|doctor|dentist|therapist|lawyer|accountant|landlord|teacher|dog|cat|pet|vet)\b
date       \b\d{4}-\d{2}-\d{2}\b|\b\d{1,2}[./]\d{1,2}[./](?:\d{4}|\d{2})\b|\bMONTH\.?\s+\d{1,2}(?:st|nd|rd|th)?\b
date       \b\d{1,2}(?:st|nd|rd|th|\.|er)?\s+(?:of |de )?MONTH\b
date       \b(?:on|by|next|this|until|every|before|since)\s+(?:mon|tues|wednes|thurs|fri|satur|sun)days?\b
date       \b(?:tomorrow|next (?:week|month|year)|deadline|due (?:on|by|date)|birthday|appointment|anniversary)\b
fact       \b(?:my|our)\s+[^.?!,;]{1,80}?(?:\s(?:is|are|was|were|lives?|works?|has|have|starts?|ends?|runs?|will be)|'s)\b
fact       \b(?:i|we) (?:live|work|study|moved|own|was born|were born|grew up|speak|have (?:an?|two|three|four|\d+))\b
fact       \bi(?:'m| am) (?:an? [a-z]+|from|based|married|\d+ years old)\b
month      jan(?:uary|uar|vier|eiro)?|feb(?:ruary|ruar|rero)?|février|fevereiro|mar(?:ch|s|zo|ço)?|märz|apr(?:ile?)?|avril
month      abril|ma[iy]|mayo|maio|jun[ei]?|juin|junio|jul[iy]?|juillet|julio|aug(?:ust)?|août|agosto
month      sept?(?:ember|embre|iembre)?|o[ck]t(?:ober|obre)?|octubre|outubre|nov(?:ember|embre|iembre)?
month      de[cz](?:ember|embre)?|décembre|diciembre
asking     remember|recall|know|find|search|look|show|remind|notes?|memory|memories|anything|something|everything|about|said
asking     say|told|what's|who's|when's|where's|please|tell|want|need|make|think
# German
keep       merken\s*,?\s*dass\b|(?:merke? dir(?: bitte)?|vergiss (?:bitte )?nicht)(?:\s*,?\s*dass\b)?
keep       denke? daran(?:\s*,?\s*dass\b)?|(?:notiere?|schreib)(?: dir)?(?: bitte)?(?: auf)?(?:\s*,?\s*dass\b|\s*:)|notiz\s*:
question   (?:wer|wen|wem|wann|wo|wohin|woher|wie|warum|wieso|weshalb|welche[rsmn]?|was)\b
question   (?:habe|hast|haben|bin|bist|ist|sind|war|kannst|weißt|weisst)\s+(?:ich|du|wir|er|sie|es|mein\w*)\b
look_up    (?:weißt du|erinnerst du dich|(?:erzähl|sag|zeige?) mir|suche?|finde)\b
decision   ^entscheidung\s*:
decision   \b(?:wir|ich) (?:haben|habe|hatten)\b.{0,120}?\b(?:entschieden|beschlossen|vereinbart|festgelegt)\b
decision   \bwir (?:nehmen|nutzen|verwenden|einigen uns|entscheiden uns)\b
preference \bich (?:bevorzuge|mag|liebe|hasse|(?:esse|trinke) kein\w*|bin (?:allergisch|veget\w*|vegan\w*))\b|\blieblings\w+
name       \bich hei(?:ß|ss)e\b|\bmein name\b
ask        \b(?:ich|wir) (?:muss|müssen|sollten?|brauchen?)\b|^(?:bitte|kannst du|könntest du|offen:)|\berinner\w* mich\b
person     \bmein\w{0,2} (?:frau|mann|schwester|bruder|mutter|vater|chef\w*|hund|katze|tochter|sohn|ä?a?rzt\w*|zahna?ä?rzt\w*)\b
date       \b(?:am|bis|nächsten|jeden) (?:mon|diens|donners|frei|sams|sonn)tag\b|\bmittwoch\b
date       \b(?:morgen um|termin|geburtstag|frist)\b
fact       \b(?:mein|unser)\w{0,2}\s+[^.?!,;]{1,80}?\s(?:ist|sind|heißt|heißen|war|wohnt|hat|beginnt)\b
fact       \bich (?:wohne|arbeite|lebe|komme aus)\b
# French
keep       (?:souviens|rappelle|rappelez|souvenez)-(?:toi|vous)(?: bien)?(?:\s+(?:que\b|qu'|de\b))?
keep       n'oublie[zs]? pas(?:\s+(?:que\b|qu'))?|(?:retiens|retenez|notez?)(?: bien)?(?:\s+(?:que\b|qu')|\s*:)
question   (?:quel(?:le)?s?|quand|qui|où|comment|pourquoi|combien|(?:qu')?est-ce|que|quoi)\b
look_up    (?:te souviens-tu|tu te souviens|(?:dis|parle|montre)-moi|cherche|trouve)\b
decision   ^décision\s*:|\b(?:nous avons|on a|j'ai) (?:décidé|convenu|choisi)\b
preference \bje (?:préfère|déteste|n'aime pas|suis (?:allergique|végétarien\w*))|\bj'(?:aime|adore)\b
name       \bje m'appelle\b|\bmon nom\b
ask        \b(?:il faut|je dois|nous devons|on doit|n'oublie pas|rappelle-moi)\b|^(?:peux-tu|pourrais-tu|merci de)\b
person     \bm(?:on|a) (?:femme|mari|sœur|soeur|frère|mère|père|fille|fils|chef\w*|chien|chat|médecin)\b
date       \b(?:lundi|mardi|mercredi|jeudi|vendredi|samedi|dimanche|demain|anniversaire|rendez-vous|échéance)\b
fact       \b(?:mon|ma|mes|notre|nos)\s+[^.?!,;]{1,80}?\s(?:est|sont|s'appelle|habite)\b
fact       \b(?:j'habite|je (?:vis|travaille))\b
# Spanish
keep       (?:recuerde|recuerda|acuérdate|acuerdate)(?:\s+(?:de )?que\b|\s*[:,]|(?=\s))
keep       no (?:te )?olvides(?:\s+(?:de )?que\b)?|(?:anota|apunta|ten en cuenta)(?:\s+que\b|\s*:)
question   (?:qué|cuándo|quién(?:es)?|dónde|cuál(?:es)?|cómo|por qué|cuánt[oa]s?)\b
look_up    (?:te acuerdas|recuerdas|dime|háblame|muéstrame|busca|encuentra)\b
decision   ^(?:decisión|decisão|decisione)\s*:|\b(?:decidido|decidimos|decidí|acordamos|acordado|elegimos)\b
preference \b(?:prefiero|odio|soy alérgic[oa]|me (?:gusta|gustan|encanta))\b
name       \b(?:me llamo|mi nombre)\b
ask        \b(?:tengo que|tenemos que|hay que|necesito|debemos|pendiente|recuérdame)\b|^(?:puedes|podrías|por favor)\b
person     \bmi (?:espos[oa]|marido|herman[oa]|madre|padre|hij[oa]|jef[ea]|perr[oa]|gat[oa]|médic[oa])\b
date       \b(?:el|cada|próximo) (?:lunes|martes|miércoles|jueves|viernes|sábado|domingo)\b
date       \b(?:cumpleaños|cita con|fecha límite)\b
fact       \b(?:mis?|nuestr[oa]s?)\s+[^.?!,;]{1,80}?\s(?:es|son|está|se llama|vive)\b|\b(?:vivo|trabajo) (?:en|como)\b
# Portuguese, Italian, Dutch, Swedish, Russian
keep       (?:lembre-se|lembra-te|lembre|lembra)(?:\s+(?:de )?que\b|\s*[:,])|não (?:se |te )?esqueças?(?:\s+(?:de )?que\b)?
keep       (?:ricorda|ricordati|annota|tieni a mente)(?:\s+che\b|\s*[:,])|non dimenticare(?:\s+che\b)?|onthoud(?:\s+dat\b)?
keep       kom ihåg(?:\s+att\b)?|(?:запомните|запомни|запишите|запиши|не забудьте|не забудь)(?:\s*,?\s*что\b)?
question   (?:qual|quais|quando|quem|onde|quanto|por que|o que|quale|quali|chi|dove|come|perché|cosa|che cosa)\b
question   (?:wat|wanneer|waar|waarom|hoe|welke|что|когда|кто|где|куда|как|почему|зачем|как(?:ой|ая|ое|ие)|сколько)\b
look_up    (?:você (?:se )?lembra|diga-me|me diga|mostre|procure|encontre|ti ricordi|dimmi|parlami|mostrami|cerca|trova)\b
look_up    (?:помнишь|скажи|расскажи|найди|покажи)\b
decision   \b(?:decidi|escolhemos|combinamos|(?:abbiamo|ho) (?:deciso|scelto|concordato)|(?:мы|я) (?:решил[иа]?|договорились|выбрали))\b
preference \b(?:prefiro|odeio|gosto de|não gosto|preferisco|mi piac(?:e|ciono)|detesto|я (?:не )?(?:предпочитаю|люблю|ненавижу))\b|\bмне (?:не )?нрав
name       \b(?:me chamo|meu nome|mi chiamo|il mio nome|меня зовут)\b
ask        \b(?:preciso|temos que|tenho que|pendente|devo|dobbiamo|bisogna|нужно|надо|должны|должен)\b|^пожалуйста\b
fact       \b(?:meus?|minhas?|mi[oae]|miei)\s+[^.?!,;]{1,80}?\s(?:é|são|mora|se chama|fica|è|sono|si chiama|vive)(?!\w)
fact       \b(?:moro|trabalho|abito|vivo|lavoro) (?:em|como|na|no|a|in|come)\b|\b(?:мой|моя|моё|мои)\s+[^.?!,;]
fact       \bя (?:живу|работаю)\b
# Chinese
keep       (?:请|麻烦)?你?(?:帮我|替我)?(?:记住|记得|记下来?|记一下|记录一下|别忘了?|不要忘记|备注)(?:了|吧)?
keep_tail  [,、。\s]{0,5}(?:请)?(?:帮我)?(?:记住|记下来?|记一下)(?:了|吧|哦|这个)?[。.!]*$
marked     什么|谁|哪[里儿个天]|几点|多少|怎么|为什么|何时|[吗呢][。.!]*$
look_up    请?(?:帮我)?(?:告诉我|搜索|搜寻|查找|查一下|找一下|找找)
decision   ^决定\s*:|(?:我们|我|咱们)(?:最后|最终|已经|已經)?(?:决定|选择|约定|商定|定下)
preference 我(?:更|最|比较|比較|不|很|非常)?(?:喜欢|讨厌|偏好|偏爱|爱吃|爱喝|习惯)|我对.{1,12}过敏|(?:从现在起|從現在起|以后都)
name       我(?:叫|的名字)
ask        ^(?:请|麻烦|帮我)|(?:需要|必须|必須|应该|别忘了|提醒我|待办)
person     我的?(?:妻子|老婆|丈夫|老公|妈妈|爸爸|[姐妹哥弟]{2}|女儿|儿子|朋友|同事|老板|医生|牙医|狗|猫)
date       \d{1,2}月\d{1,2}[日号]|(?:周|星期|礼拜)[一二三四五六日天]|明天|后天|下周|截止|生日
fact       我(?:的|家|们的)[^。?!]{1,40}(?:是|叫|在|有|为|住|姓)|我(?:住在|在.{1,12}(?:工作|上班))
# Japanese
keep       (?:覚えておいて|覚えといて|覚えて|メモして|忘れないで)(?:おいて)?(?:ください|下さい)?ね?(?=\s*[:、,。!]|$)|メモ\s*:
keep_tail  (?:という?の?を|ということを|ことを|って|と|を)?、?\s*(?:覚えて|メモして|忘れないで)(?:おいて|いて)?(?:ください|下さい)?ね?[。.!]*$
marked     何です|いつ|どこ|だれ|どう(?!し(?:ても|ぞ))|なぜ|どれ|どの|いくつ|いくら|(?:です|ます|でした|ました)か[。.]*$
look_up    .{0,60}(?:教えて|探して|検索して)
decision   ことに(?:しました|した|します|する|決めた|決めました|決まりました)|[とに]決め(?:た|ました)|採用(?:します|しました)
preference [がは]大?(?:好き|嫌い|苦手)(?:です|だ|な|。|$)|(?:ほう|方)がいい|アレルギー|好みは
name       名前は|と申します
ask        してください|お願いします|しなければ|する必要|すべき|忘れずに|宿題
person     (?:私|僕|俺|うち)の(?:妻|夫|母|父|姉|妹|兄|弟|娘|息子|友達|上司|同僚|先生|歯医者|犬|猫)
date       [月火水木金土日]曜日?|明日|来週|来月|締め?切り?|誕生日
fact       (?:私|僕|俺|わたし|うち)の[^。?!]{1,40}は|に住んで|で働いて
# Korean
keep       (?:기억해|메모해|적어)\s?(?:줘|주세요|둬|두세요)?(?=\s*[:,.!]|$)
keep_tail  \s*(?:라고|다고|는 것을|는 걸)?\s*(?:꼭\s)?(?:기억해|메모해|적어)\s?(?:줘|주세요|둬|두세요)?[.!。]*$
marked     뭐|무엇|누구|언제|어디|어떻게|왜\s|얼마|(?:니까|나요|까요|는지)[.]*$
look_up    .{0,60}(?:알려\s?(?:줘|주세요)|찾아\s?(?:줘|주세요)|검색해)
decision   (?:하기로|쓰기로|으로|로) (?:했|결정|정했|하겠)
preference 좋아해|좋아합니다|싫어해|싫어합니다|선호|알레르기
name       (?:내|제) 이름
ask        해야|해 ?주세요|부탁|필요
person     (?:내|제|우리) (?:아내|남편|엄마|어머니|아빠|아버지|언니|누나|오빠|형|동생|딸|아들|친구|상사|강아지|고양이)
date       \d{1,2}월 ?\d{1,2}일|내일|다음 주|마감|생일|[월화수목금토일]요일
fact       (?:^|\s)(?:내|제|우리)\s[^.?!]{1,40}[은는이가]\s|에 살
# All but English
polite     bitte[,!]?\s+|kannst du (?:dir )?(?:bitte )?|s'il (?:te|vous) pla[iî]t[,!]?\s+|por favor[,!]?\s+
polite     per favore[,!]?\s+
greeting   hallo|moin|servus|guten (?:morgen|tag|abend)|grüß dich|wie geht'?s(?: dir)?|bonjour|bonsoir|salut|coucou|ça va
greeting   hola|buenos días|buenas (?:tardes|noches)|qué tal|olá|oi|bom dia|boa (?:tarde|noite)|ciao|buongiorno|buonasera|hej
greeting   hoi|привет|здравствуй(?:те)?|добр(?:ый|ое) (?:день|вечер|утро)|(?:你好|您好|嗨|早上好|晚上好|哈囉|哈喽)[啊呀]?|こんにちは|こんばんは
greeting   おはよう(?:ございます)?|はじめまして|もしもし|안녕(?:하세요)?|반가워요?
thanks     danke(?: schön)?|vielen dank|merci(?: beaucoup)?|(?:muchas )?gracias|obrigad[oa]|grazie(?: mille)?|спасибо|tack
thanks     bedankt|谢谢|謝謝|多谢|多謝|ありがとう(?:ございます)?|고마워요?|감사합니다
farewell   tschüss|auf wiedersehen|au revoir|adiós|hasta luego|tchau|arrivederci|пока|до свидания|再见|再見|さようなら|잘\s?가
about      \bwer bist du\b|\bwas kannst du\b|\bqui es-tu\b|\bque peux-tu\b|\bquién eres\b|\bqué puedes hacer\b|\bкто ты\b|你是谁
about      你会什么|你能做什么|あなたは誰|何ができ|너는 누구|뭐 할 수 있
forget     ^(?:vergiss|lösche)\s(?!nicht\b)|^(?:oublie|efface)\s(?!pas\b)|^(?:olvida|borra)\s|^забудь\s|^(?:忘掉|忘了|删除)
forget     (?:忘れて|消して)(?:ください)?[。.!]*$
request    (?:bitte|kannst du|könntest du)\b|(?:peux-tu|pourrais-tu)\b|(?:puedes|podrías|por favor)\b
request    (?:per favore|puoi|пожалуйста)\b|请|麻烦|帮我|.{0,200}(?:ください|お願いします)[。.!]*$|.{0,200}주세요[.!]*$
supposed   (?:wenn|falls)\b|(?:si|se)\b|если\b|如果|假如|もし|만약
constraint \b(?:immer|niemals|höchstens|mindestens)\b|\b(?:toujours|jamais)\b|\b(?:siempre|nunca)\b
constraint \b(?:sempre|mai più|никогда|всегда)\b|一定要|不要|不能|不得|总是|必ず|絶対に|しないで|항상|절대|하지 마
blocked    \b(?:blockiert|warten? auf|hängt an)\b|\b(?:bloqué|en attente de)\b|\b(?:bloqueado|esperando)\b|卡住|等待|无法|できません|待ち
blocked    막혔
no_subject 什么时候|什么|哪[里儿个天]|几点|多少|怎么|为什么|何时|谁|[吗呢你我的是]|告诉我|いつ|どこ|だれ|なぜ|どう|何|ですか|ますか|でしたか|ましたか|教えて|ください|私の?
keep_whole erinnere? mich(?: bitte)? (?:daran|an)\b|rappelle-moi (?:de|d')|recuérdame\b|lembre-me (?:de|que)\b
keep_whole ricordami (?:di|che)\b|напомни мне\b|提醒我
asking     weißt|erinnerst|sag|zeig|such|suche|dime|dis|cherche|busca|dimmi|скажи|найди
"""


def _phrases() -> dict[str, re.Pattern[str]]:
    rows = [row.split(maxsplit=1) for row in _TABLE.splitlines() if row and not row.startswith("#")]
    months = "|".join(pattern for kind, pattern in rows if kind == "month")
    patterns: dict[str, list[str]] = {}
    for kind, pattern in rows:
        written = pattern.replace("MONTH", f"(?:{months})").translate(ONE_WRITING)
        patterns.setdefault(kind, []).append(f"(?:{written})")
    return {kind: re.compile("|".join(rows)) for kind, rows in patterns.items()}


PHRASES = _phrases()
"""The pattern of each kind over all languages, for `plain` text."""
