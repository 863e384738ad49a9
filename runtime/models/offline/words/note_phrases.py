"""How decisions, preferences, names, dates and open asks sound, in several languages.

Patterns only; `notes` sorts sentences with them. Bounds as in `ask_phrases`: each pattern is linear
in the length of a sentence.
"""

from __future__ import annotations

from nacre.runtime.models.offline.words.ask_phrases import any_of

_CHINESE_RELATIONS = (
    r"(?:妻子|老婆|丈夫|老公|妈妈|媽媽|爸爸|姐姐|妹妹|哥哥|弟弟|女儿|女兒|儿子|兒子|朋友|同事|老板|老闆"
    r"|医生|醫生|牙医|牙醫|狗|猫|貓)"
)

DECISION = any_of(
    r"^(?:decision|decided|entscheidung|décision|decisión|decisão|decisione|决定|決定)\s*[:\uff1a]",
    r"\b(?:they|the (?:team|board|group|committee)) (?:have |has )?(?:decided|agreed|chose|settled on)\b",
    r"\b(?:we|i)(?:['’]ve| have| had)?(?: just| finally| now| all)? (?:decided|agreed|chose|chosen"
    r"|settled on|picked|resolved)\b",
    r"\b(?:we|i)(?:['’]ll| will|['’]re going to| are going to|['’]m going to)(?: now)? (?:use"
    r"|go with|ship|switch to|move to|stick (?:with|to)|drop|adopt|migrate)\b",
    r"\b(?:our|my|the) (?:final )?decision (?:is|was)\b|\bit (?:is|was) (?:decided|agreed)\b",
    r"\b(?:let['’]s|lets) (?:go with|use|stick (?:with|to)|choose|pick|settle on)\b",
    r"\b(?:wir|ich) (?:haben|habe|hatten)\b.{0,120}?\b(?:entschieden|beschlossen|vereinbart|festgelegt)\b",
    r"\bwir (?:nehmen|nutzen|verwenden|einigen uns|entscheiden uns)\b",
    r"\b(?:nous avons|on a|j['’]ai) (?:décidé|convenu|choisi)\b",
    r"\b(?:hemos |he )?(?:decidido|decidimos|decidí|acordamos|acordado|elegimos)\b",
    r"\b(?:decidimos|decidi|escolhemos|combinamos)\b|\b(?:abbiamo|ho) (?:deciso|scelto|concordato)\b",
    r"\b(?:мы|я) (?:решили|решил|решила|договорились|выбрали)\b",
    r"(?:我们|我們|我|咱们)(?:最后|最終|最终|已经|已經)?(?:决定|決定|选择|選擇|约定|約定|商定|定下)",
    r"ことに(?:しました|した|します|する|決めた|決めました|決まりました)|(?:と|に)決め(?:た|ました)|(?:を)?採用(?:します|しました)",
    r"(?:하기로|쓰기로|으로|로) (?:했|결정|정했|하겠)",
)
PREFERENCE = any_of(
    r"\bi(?:['’]d| would)?(?: really| always| usually| strongly| generally| much)? prefer\b",
    r"\bmy preference\b|\bmy favou?rite\b",
    r"\bi (?:really |always |absolutely )?(?:like|love|hate|dislike|enjoy"
    r"|can['’]?t stand)\s+(?!it\b|this\b|that\b|you\b)",
    r"\bi (?:don['’]?t|do not|never|always) (?:like|eat|drink|use|work|take|want|wear"
    r"|watch)\b(?!\s+(?:it|this|that)\b)",
    r"\bi(?:['’]m| am) (?:allergic|vegetarian|vegan|left-handed|lactose|colou?r-?blind)\b|\bfrom now on\b",
    r"\bich (?:bevorzuge|mag|liebe|hasse|esse kein\w*|trinke kein\w*)\b",
    r"\bich bin (?:allergisch|vegetarier\w*|veganer\w*)\b|\blieblings\w+",
    r"\bje (?:préfère|déteste|n['’]aime pas|suis (?:allergique|végétarien\w*))|\bj['’](?:aime|adore)\b",
    r"\b(?:prefiero|odio|soy alérgic[oa]|(?:no )?me (?:gusta|gustan|encanta))\b",
    r"\b(?:prefiro|odeio|gosto de|não gosto)\b|\b(?:preferisco|(?:non )?mi piac(?:e|ciono)|detesto)\b",
    r"\bя (?:предпочитаю|люблю|не люблю|ненавижу)\b|\bмне (?:не )?нрав",
    r"我(?:更|最|比较|比較|不|很|非常)?(?:喜欢|喜歡|讨厌|討厭|偏好|偏爱|爱吃|愛吃|爱喝|愛喝|习惯|習慣)|我[对對].{1,12}[过過]敏|(?:从现在起|從現在起|以后都|以後都)",
    r"(?:が|は)(?:大)?(?:好き|嫌い|苦手)(?:です|だ|な|。|$)|(?:ほう|方)がいい|アレルギー|好みは",
    r"(?:좋아해|좋아합니다|좋아해요|싫어해|싫어합니다|선호|알레르기)",
)
NAME = any_of(
    r"\bmy name(?: is|['’]s)\b",
    r"\bcall me\b(?! (?:back|later|when|at|on|tomorrow|today|if|as soon)\b)",
    r"\bi(?:['’]m| am) called\b",
    r"\bich hei(?:ß|ss)e\b|\bmein name\b|\bje m['’]appelle\b|\bmon nom\b|\b(?:me llamo|mi nombre)\b",
    r"\b(?:me chamo|meu nome|mi chiamo|il mio nome)\b|\bменя зовут\b",
    r"我(?:叫|的名字)|名前は|と申します|(?:내|제) 이름",
)
PERSON = any_of(
    r"[\w.+-]{1,64}@[\w-]{1,63}\.[\w.-]{2,63}",
    r"\bmy (?:(?:new|old|best|older|younger|ex|late)[ -])?(?:wife|husband|partner|girlfriend"
    r"|boyfriend|sister|brother|mother|father|mom|mum|dad"
    r"|son|daughter|child|kid|aunt|uncle|cousin|grandmother|grandfather|friend|boss|manager|colleague"
    r"|coworker|teammate|neighbou?r"
    r"|doctor|dentist|therapist|lawyer|accountant|landlord|teacher|dog|cat|pet|vet)\b",
    r"\b(?:is|are) (?:my|our) (?:new |old )?[a-z]+\b|\b(?:is called|is named|whose name)\b",
    r"\bmein\w{0,2} (?:frau|mann|schwester|bruder|mutter|vater|chef\w*|hund|katze|tochter|sohn"
    r"|arzt|ärztin|zahnarzt\w*)\b",
    r"\bm(?:on|a) (?:femme|mari|sœur|soeur|frère|mère|père|fille|fils|chef\w*|chien|chat|médecin)\b",
    r"\b(?:mi (?:esposa|marido|hermana|hermano|madre|padre|hija|hijo|jef[ea]"
    r"|perr[oa]|gat[oa]|médic[oa]))\b",
    rf"我的?{_CHINESE_RELATIONS}",
    r"(?:私|僕|俺|うち)の(?:妻|夫|母|父|姉|妹|兄|弟|娘|息子|友達|上司|同僚|先生|歯医者|犬|猫)",
    r"(?:내|제|우리) (?:아내|남편|엄마|어머니|아빠|아버지|언니|누나"
    r"|오빠|형|동생|딸|아들|친구|상사|강아지|고양이)",
)
FACT = any_of(
    r"\b(?:my|our)\s+[^.?!,;]{1,80}?(?:\s(?:is|are|was|were|lives?|works?|has|have|starts?|ends?"
    r"|runs?|will be)|['’]s)\b",
    r"\b(?:i|we) (?:live|work|study|moved|own|was born|were born|grew up|speak|have (?:a|an|two"
    r"|three|four|\d+))\b",
    r"\bi(?:['’]m| am) (?:an? [a-z]+|from|based|married|\d+ years old)\b",
    r"\b(?:mein|unser)\w{0,2}\s+[^.?!,;]{1,80}?\s(?:ist|sind|heißt|heißen|war|wohnt|hat|beginnt)\b",
    r"\bich (?:wohne|arbeite|lebe|komme aus)\b",
    r"\b(?:mon|ma|mes|notre|nos)\s+[^.?!,;]{1,80}?\s(?:est|sont|s['’]appelle|habite)\b",
    r"\b(?:j['’]habite|je (?:vis|travaille))\b",
    r"\b(?:mis?|nuestr[oa]s?)\s+[^.?!,;]{1,80}?\s(?:es|son|está|se llama|vive)\b",
    r"\b(?:vivo|trabajo) (?:en|como)\b",
    r"\b(?:meus?|minhas?)\s+[^.?!,;]{1,80}?\s(?:é|são|mora|se chama|fica)(?!\w)",
    r"\b(?:moro|trabalho) (?:em|como|na|no)\b",
    r"\b(?:mi[oae]|miei)\s+[^.?!,;]{1,80}?\s(?:è|sono|si chiama|vive)(?!\w)",
    r"\b(?:abito|vivo|lavoro) (?:a|in|come)\b",
    r"\b(?:мой|моя|моё|мои)\s+[^.?!,;]{1,80}|\bя (?:живу|работаю)\b",
    rf"我的?{_CHINESE_RELATIONS}[^。?!\uff1f\uff01]{{0,30}}(?:是|叫|在|住|姓)",
    r"我(?:的|家|们的|們的)[^。?!\uff1f\uff01]{1,40}(?:是|叫|在|有|为|為)|我(?:住在|在.{1,12}(?:工作|上班))",
    r"(?:私|僕|俺|わたし|うち)の[^。?!\uff1f\uff01]{1,40}は|に住んで|で働いて",
    r"(?:^|\s)(?:내|제|우리)\s[^.?!]{1,40}(?:은|는|이|가)\s|에 살",
)

_MONTHS = (
    r"(?:jan(?:uary|uar|vier|eiro)?|feb(?:ruary|ruar|rero)?|février|fevereiro|mar(?:ch|s|zo|ço)?|märz"
    r"|apr(?:il|ile)?|avril|abril"
    r"|may|mai|mayo|maio|june?|juni|juin|junio|july?|juli|juillet|julio|aug(?:ust)?|août|agosto"
    r"|sept?(?:ember|embre|iembre)?"
    r"|oct(?:ober|obre|ubre)?|okt(?:ober)?|nov(?:ember|embre|iembre)?|dec(?:ember)?|dez(?:ember)?"
    r"|décembre|diciembre)"
)
DATE = any_of(
    r"\b\d{4}-\d{2}-\d{2}\b|\b\d{1,2}[./]\d{1,2}[./](?:\d{4}|\d{2})\b",
    rf"\b{_MONTHS}\.?\s+\d{{1,2}}(?:st|nd|rd|th)?\b",
    rf"\b\d{{1,2}}(?:st|nd|rd|th|\.|er)?\s+(?:of |de )?{_MONTHS}\b",
    r"\b(?:on|by|next|this|until|every|before|since)\s+(?:mon|tues|wednes|thurs|fri|satur|sun)days?\b",
    r"\b(?:tomorrow|next (?:week|month|year)|deadline|due (?:on|by|date)|birthday|appointment|anniversary)\b",
    r"\b(?:am|bis|nächsten|jeden) (?:montag|dienstag|mittwoch|donnerstag|freitag|samstag|sonntag)\b",
    r"\b(?:morgen um|termin|geburtstag|frist)\b",
    r"\b(?:lundi|mardi|mercredi|jeudi|vendredi|samedi|dimanche|demain|anniversaire|rendez-vous|échéance)\b",
    r"\b(?:el|cada|próximo) (?:lunes|martes|miércoles|jueves|viernes|sábado|domingo)\b",
    r"\b(?:cumpleaños|cita con|fecha límite)\b",
    r"\d{1,2}月\d{1,2}[日号號]|(?:周|週|星期|礼拜|禮拜)[一二三四五六日天]|明天|后天|後天|下周|下週|截止|生日",
    r"[月火水木金土日]曜日?|明日|来週|来月|締め?切り?|誕生日|\d{1,2}월 ?\d{1,2}일|내일|다음 주",
    r"마감|생일|[월화수목금토일]요일",
)
ASK = any_of(
    r"^(?:please|pls|todo\b|to do\b|next,?\s|action item|reminder)",
    r"\b(?:i|we) (?:still |also )?(?:need|have|want|must|ought) (?:you )?to\b",
    r"\b(?:i|we) (?:must|should)\b|\bneeds? to be\b|\bstill (?:open|missing|to do|need)",
    r"^(?:can|could|would|will) you\b|\bremind me\b|\blet me know\b",
    r"\b(?:don['’]?t|do not) forget to\b|\bremember to\b|\bto-?do:",
    r"\b(?:ich|wir) (?:muss|müssen|sollten|sollte|brauche|brauchen)\b",
    r"^(?:bitte|kannst du|könntest du|offen:)\b|\berinner\w* mich\b",
    r"\b(?:il faut|je dois|nous devons|on doit|n['’]oublie pas)\b|^(?:peux-tu|pourrais-tu|merci de)\b",
    r"\brappelle-moi\b",
    r"\b(?:tengo que|tenemos que|hay que|necesito|debemos|pendiente)\b",
    r"^(?:puedes|podrías|por favor)\b|\brecuérdame\b",
    r"\b(?:preciso|temos que|tenho que|pendente|devo|dobbiamo|bisogna)\b",
    r"\b(?:нужно|надо|должны|должен)\b|^пожалуйста\b",
    r"^(?:请|請|麻烦|麻煩|帮我|幫我)|(?:需要|必须|必須|应该|應該|别忘了|別忘了|提醒我|待办|待辦)",
    r"(?:してください|お願いします|しなければ|する必要|すべき|忘れずに|宿題)|(?:해야|해 ?주세요|부탁|필요)",
)
BLOCKED = any_of(
    r"\b(?:blocked (?:by|on)|stuck (?:on|with)|waiting (?:for|on)|cannot (?:continue|proceed)"
    r"|can['’]?t (?:continue|proceed)|does(?:n['’]t| not) work|failed|fails)\b",
    r"\b(?:blockiert|warten? auf|hängt an|bloqué|en attente de|bloqueado|esperando)\b|卡住|等待|無法|无法",
    r"できません|待ち|막혔",
)
CONSTRAINT = any_of(
    r"\b(?:always|never|at most|at least|no more than|must(?: not|n['’]t)?|(?:do not"
    r"|don['’]?t) (?:use|touch|change|add|send|write|delete|commit))\b",
    r"\b(?:please (?:use|keep|answer|write|avoid)|instead of|rather than|keep it (?:short|simple|brief))\b",
    r"\b(?:immer|niemals|höchstens|mindestens|toujours|jamais|siempre|nunca|sempre|mai più"
    r"|никогда|всегда)\b",
    r"一定要|不要|不能|不得|总是|總是|必ず|絶対に|しないで|항상|절대|하지 마",
)
