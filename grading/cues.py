"""The cue words by which statements are told apart: ends of sentences, engines, negation, questions, what others say."""

# The patterns are read over normalised text: lower case, half width, Simplified (see text.py). No pattern repeats over blanks without a bound.
# ruff: noqa: E501

from __future__ import annotations

import re

from inferproof.grading.text import CJK

SENTENCE = re.compile(
    rf"(?:[^.。!！?？\n]|!(?=[=)])|\.(?=[^\s{CJK}\"”])|(?<=\be\.g)\.|(?<=\bi\.e)\.|(?<=\bvs)\.|(?<=\bincl)\.|(?<=\bresp)\.|(?<=\bapprox)\.)+[.。!！?？\n]*"
)
CLAUSE_END = re.compile(
    r"[,，;；:：()（）]|—+|\s-+\s|"
    r"(?=\s(?:but|while|whereas|however|although|though|because|so|since|then|which|instead|yet)\b)|"
    r"(?=但是?|然而|不过|所以|因此|因为|然后|相反|反过来|其实|而(?!且|言|是|非|不是|已))"
)
MARK = re.compile(r"[,，、;；:：()（）—](?!$)")
BREATH = re.compile(
    r"(?<=[,，、;；:：()（）])|(?<=->)|(?<=→)|"
    r"\b(?=(?:and|so|then|but|because|cause|cuz|which|while|whereas|when|if|until|um|uh|er|you know|i mean|basically|okay|ok|well|yeah|that's|it's)\b)|"
    rf"(?<=[{CJK}]) (?=[{CJK}])|"
    r"(?=然后|所以|因为|但是?|就是说|而且|并且|还有|另外|最后|之后|不过|要是|如果|其实|再就是|接着|比如|反正|后来|省得|才能)|(?<=[嘛啊呢吧呀])(?=.)"
)
ENGINE = re.compile(r"(?<![a-z])(?:(?P<vllm>v[ -]?llm)|(?P<sglang>sg[ -]?lang|sgl))(?![a-z])")
CONTRAST_BEFORE = re.compile(
    r"(?:unlike|than|compared (?:to|with)|in contrast to|as opposed to|不像|相比于?|不同于|区别于|比起?)\s*(?:in |the )?$"
)
CONTRAST_AFTER = re.compile(r"\s*(?:不同|不一样|相比|相反|那样|那种)")
IN_BRACKETS = re.compile(rf"\((?:(?:in|on|for|at) )?(?:{ENGINE.pattern})[^()]{{0,12}}\)")
"""An engine in brackets is that of what stands before them: "counts (vLLM), locks (SGLang)"."""
UNFAMILIAR = re.compile(
    rf"(?:{ENGINE.pattern})[^,，。;；]{{0,10}}?我?(?:不|没)(?:太|怎么|大|有|真|是很)*(?:熟|懂|了解|清楚|熟悉|(?:用|看|碰|研究|接触)过?)(?:源码)?\W*$|"
    r"\b(?:never|not|less about|nothing about|don't know|not familiar with|(?:never|haven't|not) (?:used|touched|run|ran|read|seen|tried))\s+(?:v[ -]?llm|sg[ -]?lang|sgl)\b\W*$"
)
"""The speaker says that he does not know that engine: he will speak of the other one."""
CONTRASTED_WITH = re.compile(r"(?:[与和跟同像]|不像|\b(?:as|like|with|to|from|than))\s*$")
"""Before such an engine: "SGLang is different" speaks of SGLang."""
CONNECTED = re.compile(
    r"[\s,、/&+]*(?:and|or|as well as|和|与|跟|及|以及|还是|vs\.?|versus)?[\s,、/&+]*(?:in|for|both|on|在)?\s*"
)
SWITCH = re.compile(r"\b(?:and|while|whereas|but|versus|vs)\b|而(?!已|且)|和|但|,|，")
BOTH = re.compile(
    r"\bboth (?:engines?|frameworks?|systems?|of them|do|are|use|match|need|must|reuse|recompute|keep|have|still|can|run|share)\b|\bin both\b(?! cases)|\bneither (?:engine|of them|one)\b|\b(?:two|either) (?:engines?|frameworks?|systems?)\b|两者|两个(?:框架|引擎|系统)|两边|两家|二者"
)
FORMER = re.compile(r"\b(?:the )?former\b|前者")
LATTER = re.compile(r"\b(?:the )?latter\b|后者")
OTHER = re.compile(r"\bthe other (?:one|engine|framework)\b|另一个(?:框架|引擎)|另一边")

TURN = re.compile(
    r"\b(?:but|however|actually|in fact|in reality|in truth|really|nowadays|these days|today|the current engine)\b|现在的?|如今|但|其实|实际上?|事实上|然而|不过|而是|正确的是|我觉得|我认为"
)
TURNS_BACK = re.compile(rf"\s*(?:[-*•]\s*)?(?:{TURN.pattern})")
REPORTED = re.compile(
    r"\b(?:(?:people|those|candidates) who \w+ (?:\w+ ){0,3}(?:expect|say|think|believe|assume)|(?:many|some|most|other|lots of)? ?(?:people|candidates|folks|engineers|colleagues|others|blogs?|tutorials?) (?:often |usually |will |keep |like to )?(?:say|says|saying|repeat|repeating|think|believe|assume|claim|tell(?: you| me)?|told (?:me|us)|answer)|"
    r"some (?:will |would )?(?:tell|told) (?:you|me|us)|whoever (?:told|tells|says|said|claims|thinks|believes)(?! so)|(?:one|you)(?:'ll| will| can)? (?:often |sometimes |still |always |also |even )*(?:reads?|hears?)(?: (?:often|sometimes|online|everywhere))* that|"
    r"(?:a|the|this|that|one|another) (?:widespread|popular|tempting) (?:idea|notion|belief|view|claim|story|assumption)|there(?:'s| is) (?:this|the|an?) (?:\w+ )?(?:idea|notion|belief|claim|story|rumou?r)|(?:has|have|had) it that|i (?:believed (?:that|a|the|it)|had believed|always assumed|had assumed)|chatgpt (?:says?|said|tells?|told|claims?|claimed)|"
    r"(?:he|she|they|somebody|someone|another one|(?:my|our) (?:\w+ )?(?:lead|mentor|intern|cto)|(?:my|a|an|the|one|some|our|every) (?:old |former |new )?(?:colleague|friend|boss|teacher|interviewer|manager|guy|blog|teammate|coworker|professor|predecessor|slide|article|tutorial|thread|video)s?(?: of mine| i (?:read|saw|know))?) (?:(?:still|also|once|keeps?|always) )?(?:say|says|said|saying|claim|claims|claimed|think|thinks|thought|believe|believes|swears?|swore|insists?|insisted|argues?|argued|tell me|tells me|telling me|told me|maintains?|reckons?)(?! (?:zip|nothing|little|something|not much|a lot|much) (?:about|of|on)\b)|(?:some|many|others) (?:say|think|believe|assume|claim)|(?:it is|it's) (?:often|commonly|usually|sometimes|widely) (?:said|believed|thought|assumed|claimed)|"
    r"common (?:mistake|misconception|belief|misunderstanding|answer|claim)|(?:you|one)(?: (?:might|may|would|could)|'d) (?:well |also |easily )?(?:think|expect|assume|have (?:heard|read|thought))|people (?:also|still|keep|always) (?:say|saying|think|claim|tell|telling|believe)|naively|"
    r"(?:older|old|earlier|previous|legacy) (?:versions?|vllm|sglang|releases?|code)|used to|i (?:often |always |keep |sometimes )(?:hear|read|hearing|reading)|i(?:'ve| have) (?:often |also |even )?(?:heard|read|been told)|i (?:once|used to|initially|first) (?:think|thought)|supposedly|allegedly)\b|"
    r"(?:有些?|有的|很多|许多|不少|一些|好多|别)人(?:都|也|常常?|会|往往|总|还|跟我|和我|对我)*(?:说|认为|以为|觉得|讲|回答|把[^，。]{0,24}(?:[安算归]到|当成|当作|说成|看成|记成))|(?:他|她|他们|同事|朋友|面试官|老板|领导|群里)(?:们)?(?:都|总|老|常|就|也|还|坚持|坚信|非)*(?:说|讲|认为|以为|觉得)(?![得的]?(?:基本|都|很|挺|完全|也|大体|没)*[对错])(?!得?(?:八九不离十|有道理|差不多|在理|是对的))(?!的(?!是|就|都|也|那|话|对))|常?听人(?:家)?(?:说|讲)|谁要是(?:跟你|再|还|敢)*(?:说|讲)|(?:还|也|总|老)?有人(?:会|总|老|爱|喜欢)*(?:说|讲|拿|认为|以为|觉得|问|担心|怀疑|当[它他这那])|大家(?:都|常|往往|通常|会)?(?:说|认为|以为|觉得)|常见的?(?:误区|错误|误解|说法|回答)|网上|旧版|老版本|早期版本|以前的|传统(?:的)?说法|通常(?:会)?(?:以为|认为)|误以为|以为|误认为|乍一?看|我原来|据说"
)
AGAINST_OTHERS = re.compile(
    r"\b(?:unlike|from|to|whatever|no matter) what\b|\bwhatever (?:the|your|my|some)\b|\bcontrary to\b|[与和跟]\S{0,12}(?:说|讲|以为|想)的?(?:相反|不同|不一样)"
)
"""Names what others say only to say otherwise."""
REJECTED = re.compile(
    r"(?:\b(?:is|are|was|were|be|sounds?|looks?)|'s|'re)(?: \w+ly| just| plain| also| a)* (?:wrong|false|incorrect|untrue|myth|misconception|mistake|mistaken|fairy ?tale|legend|nonsense|bogus|rubbish|bunk|folklore|not (?:(?:true|correct|right|accurate)(?=\W*$|\W*[,.;:!?)]| (?:that|at all|either|and|but|though|for|in|any|to|here)\b)|the case|what happens|how it works))\b|"
    r"\b(?:isn't|aren't|wasn't) (?:(?:true|correct|right|accurate)(?=\W*$|\W*[,.;:!?)]| (?:that|at all|either|and|but|though|for|in|any|to|here)\b)|the case\b|what happens\b|how it works\b)|"
    r"\b(?:wrong|incorrect|mistake|mistaken|false|naive|tempting|fairy ?tale|myth|nonsense) (?:to|that)\b|\b(?:wrong|false|mistaken|untrue|incorrect|bogus) (?:is|are) the (?:idea|notion|claim|belief|view|story)s?\b|\b(?:is|are) (?:outdated|obsolete)\b|(?<=[\"\x27]:)\s*no\b|(?<=[\"”」])[,，。:： -]{0,3}(?:错(?!误)|wrong\b|false\b|nope?\b)|\bi (?:do not|don't|would not|wouldn't) (?:think|believe|say|agree|claim)\b|\b(?:does not|doesn't|will not|won't|never) (?:actually )?(?:happen|occur|exist)\b|"
    r"(?:does not|doesn't|do not|don't) hold (?:water|up)\b|^\W*(?:myth|misconception|rumou?r|misunderstanding)(?: (?:one|two|three|four|five|six|seven|eight|nine|ten|next|last|again|number \w+|no\.? ?\d+|\d+))?\W{0,2}[:：,]|"
    r"误区|误解|误会|老黄历|胡说|瞎说|扯淡|站不住脚|想当然|错误的|(?<!对)不对|过时|(?<![分区特类级个])别(?:再)?(?:跟我|和我|对我|听(?:人家?|他们?|网上))?(?:以为|说|讲|认为|当成)|不要(?:再)?(?:以为|说|认为)|(?<=不能)因为[^，。]{0,30}?就(?:说|认为|以为|觉得|断定)|不是说|不正确|不成立|是错|真错|大错特错|(?<!猜)错的|说错|不准确|并不是说|并非如此|不是这样|不是事实|我不认为|不能说|不能认为|不同意|不认同"
)
DISMISSED = re.compile(
    r"\W{0,8}(?:(?:but|well|and|also|that's|that is|it's|this is)\W{1,8})?(?:no|nope|nah|not so|not true|not really|not at all|not quite|wrong|false|nonsense|rubbish|bogus|bunk|no such thing|neither)\W{0,8}|"
    r"\W{0,8}(?:it|that|this|they|which) (?:is|are|does|do|was|will)(?: not|n't)(?: so| true| the case| right)?\W{0,8}|"
    r"\W{0,8}(?:但|可|其实|这|那|都|也|并|就|同样|更|根本|压根|完全|当然)*(?:不是(?:的|(?:这|那)(?:样|么回事)的?)?|不会的?|不行|不真|哪有(?:(?:这|那)(?:么|种)?(?:回事|事|好事)?)?|没有?(?:这|那)么?回事|没有的事|怎么会|恰恰相反|正相反|绝不会|错了?|(?:搞|说|正好|刚好)?反了|别信|我不信|才怪|没(?:有)?根据|没有?这种(?:事|好事)|不对|不然|非也|不成立)[啊呢的]?\W{0,8}"
)
"""A clause that says of what stands before it that it is not so, and nothing else: "people say A: no, B"."""
NOT_REJECTED = re.compile(
    r"\b(?:drafts?|guess(?:es)?|tokens?|candidates?|(?:first|next|earlier|later) one) (?:is|are|was|were) (?:wrong|incorrect)\b|"
    r"\b(?:flag|switch|option|default|mixed\w*)\b[^,;.]{0,30}?\b(?:is|are|'s) (?:set to )?false\b|\b(?:is|'s|are) false(?: by default| unless| until| out of the box| if\b)|"
    r"(?:前文|上下文|前缀|前面|后面|草稿|猜|context)[^,，。;；]{0,6}(?:不对|\b(?:is|are|was|'s) wrong)|不对(?=[\d一二三四五六七八九十])|"
    r"(?:接着|沿着|按着?)错的|错误的(?:前文|前缀|上下文|字|词)|算出来(?:是|就|就是)?错的|\b(?:tokens?|words?) that (?:does not|doesn't|do not|don't) exist\b|\b(?:if|when|where) (?:\w+ ){0,2}\w+(?:'s| is| was) wrong\b|"
    r"\bdoes(?: not|n't) exist any ?more\b|\b(?:not|isn't|never) (?:wrong|false|incorrect|a mistake)\b|没错|不是错|并没有错"
)
REJECTS_ONE = re.compile(
    r"(?<=不能)因为|(?<![分区特类级个])别(?:再)?(?:跟我|和我|对我|听(?:人家?|他们?|网上))?(?:以为|说|讲|认为|当成)|不要(?:再)?(?:以为|说|认为)|不是说|我不认为|不能说|不能认为|不(?:同意|认同)(?=\w)"
)
"""Rejects what follows in the same half sentence, and nothing else."""
REJECTS_AHEAD = re.compile(
    r"\b(?:that|to|think|believe|say|claim|agree|do not|don't|myth|misconception|rumou?r|misunderstanding)\b|误区|误解|误会"
)
OWN_SUBJECT = re.compile(
    r"\b(?:whoever|anyone|anybody|saying|the (?:idea|claim|belief|notion|story|view|saying))\b|(?:^|[,，。;；:：\s也还再])说|的?说法|[\"”]\W{0,3}$"
)
"""Before a rejection: the clause itself says what is wrong."""
GOES_ON = re.compile(
    r"\W*(?:(?:it|they|there|one|only|nothing|none|what|you|we|in fact|actually|rather|instead|by default|since|because|so|the (?:opposite|reverse|truth))(?:'s|'re)?\b|它|它们|而是|其实|因为|所以|只|反而|实际)"
)
"""How a clause begins that says what is true behind one that says what is not."""
TAKES_BACK = re.compile(
    r"\b(?:no,? wait|wait,? no|no,? sorry|sorry,? (?:no|it's|that's|i)|scratch that|i take that back|(?:no|oh|wait|er|uh|um),? hang on|hang on,? (?:no|that)|(?:no|er|uh|um),? make that|actually,? no|oops)\b|"
    r"不不|说错|口误|[哦啊噢]不(?![进过会是用])|讲错|等等,? ?不|不是不是"
)
"""Corrects the number or the word just said."""
CORRECTS_HIMSELF = re.compile(
    rf"{TAKES_BACK.pattern}|\b(?:no,? no|sorry|correction|let me (?:correct|rephrase)|i mean)\b|不对|[哦啊噢]不"
)
"""In speech: takes back a word, not a thought."""
QUESTION = re.compile(
    r"(?<![=<>≈:] )(?<![=<>≈])[?？]\s*$|(?:吗|么)\s*[。.!！]?\s*$|(?:什么|怎么|[哪谁咋何]|几个|多少|(.)不\1|有没有)[^。，]{0,30}呢\s*[。.!！]?\s*$"
)
UNSURE = re.compile(
    r"\b(?:i do not know|i don't know|not sure|no idea|i wonder) (?:whether|if|how|why)\b|不知道是不是|不清楚是不是|不确定是不是"
)
"""A clause that asks without a question mark."""
PAST = re.compile(
    r"\bv0\b|\b(?:in|from) the (?:original |20\d\d )?paper\b|\bpaper's\b|\bin the past\b|\bhistorically\b|\blong ago\b|论文里|过去(?=[是曾都常的]|有人)"
)
INSTRUCTION = re.compile(
    r"\s*(?:[-*•]\s*)?(?:\d+ ?(?:points?|分)[:：]? ?)?(?:please )?(?:explain|describe|state|name(?!s?,)|identify|mention|discuss|give(?! (?:it|them|each|every|both|two|(?:a|the|that|another) request)\b)|award|ignore|disregard)s?\b(?!\s*:)|\s*(?:[-*•]\s*)?(?:\d+ ?分[:：]? ?)?(?:请(?!求)|说明|解释|指出|讲清|给出|识别|描述|阐述|忽略)"
)
DISTINCTION = re.compile(
    r"\bdistinguish|\bdifferent (?:things?|concepts?|from)\b|\bdifference between\b|区分|区别|两回事|三回事|不是一回事|三个概念|不同的?概念"
)
TAG_QUESTION = re.compile(r"(?:\b(?:right|ok|okay|correct)|对吧|是吧|对吗|对不对|好吧|对不)\s*[?？]+\s*$")

NEGATION = re.compile(
    r"(?P<exchange>\brather than\b|\binstead of\b|\bas opposed to\b|而不是|而非)|"
    r"(?P<short>\bwithout\b|\bno(?! longer| matter| doubt| wonder|,? no\b|,? wait|,? sorry)\b|\bnone\b)|"
    r"(?P<full>!=|≠|\bnothing\b|\bnobody\b|\b(?:do|does|did|is|are|was|were|has|have|had|can|could|will|would|should|must|need|ai)n'?t\b|\bwon'?t\b|\bcan'?t\b|\bcannot\b|"
    r"\bnot\b(?! (?:only|just|merely|simply)\b)|\bnever\b|\bno longer\b|\bneither\b|\bnor\b|\bhardly\b)|"
    r"(?P<noun>没有?(?!问题|错)|(?<!毫)无(?!论|疑|关紧要|非|锁|效)|从未|尚未|并未|未能|从不)|"
    r"(?P<chinese>(?<![差要得])不(?!同|变|断|过|管|论|只|仅|但|光|少|错|得不|可避免|可变|足|够|止|久|如|妨|连续|对齐|满|完整|等式|一致|匹配|然|均|平衡)|难以|并非|(?<![分区特类级个])别(?=把|以为))"
)
MARKS = tuple(".。;；:：!！?？,，)\n")
"""Right behind a negation they end it at once: "commits nothing."."""
SCOPE_END = re.compile(
    rf"(?<=[{CJK}]) (?=[{CJK}])|[.。;；:：!！?？\n()，]|"
    r",(?!\s*(?:or|nor)\b|(?:\s*[\w-]+){1,3}\s*,?\s*\b(?:or|nor)\b)|"
    r"\b(?:but|so that|(?<!not )because|since|unless|until|while|whereas|although|though|however|which|rather than|instead|thus|hence)\b|(?<!mean)(?<!means)(?<!that)(?<!think)(?<!imply)(?<!say) (?:it (?:\w+s|just|must|can|will)\b|(?:they|we|you) \w+)|\band (?:it|they|we|you|i|so|then|the|therefore|instead|vllm|sglang|each|every|even|only|if|when|that|this|there|what|with)\b|(?<!not )\bso\b(?! (?:much|many|far|on)\b)|"
    r"而(?!且)|但|才|就(?!地)|则|所以|因此|因为|只(?:是|会|能|需|有)|时(?!间|延|候|序|钟|刻|长|机)|时候|的话|仍|还|并且|而且|再(?!次)|又|靠|改(?!变|动|善|进|写)"
)
SHORT_END = re.compile(r"(?:\W*\w+){6}|\b(?:means?|so|then|makes?|lets?)\b")
PASSIVE = re.compile(
    r"\s+(?:\w+ly )?(?:used|involved|needed|done|there|present|performed|supported|available|required|part of|touched|happening|reduced|removed|changed|eliminated|apply|applies|work|help|matter|count|protect it|protect them|prevent it|prevent that|prevent this|stop it|stop that)\b|(?<=不)了|"
    r"(?:会)?(?:发生|存在|成立|用到|使用|涉及|出现|参与|必要|起作用|管用|适用|生效|有用)(?=\s*(?:[，。,.;；!！\n]|$))"
)

REJECTS_BACK = re.compile(
    r"\s*(?:but )?(?:this|that|it|which)(?:'s| is| sounds)(?: \w+ly| just| simply| a)* (?:wrong|false|incorrect|untrue|myth|misconception|mistake|not (?:true|correct|right|the case))|"
    r"\s*(?:但?是?)?(?:这|这个|那|这种|这样)(?:个|种)?(?:说法|想法|理解|观点|看法|话)?(?:其实)?(?:是|都是|就是)?(?:错|不对|不正确|误区|误解|不成立|不准确)"
)
HEDGE = re.compile(
    r"\b(?:maybe|perhaps|probably|possibly|might|i guess|i think|i believe|roughly|not sure|seems?|likely)\b|可能|大概|也许|应该是|好像|我猜|不确定|不太清楚|似乎|估计是|记得"
)
WORD = re.compile(r"[a-z0-9]+")
CHINESE = re.compile(f"[{CJK}]")
LIST_MARK = re.compile(r"(?:(?<!\d),|,(?!\d{3})|[，、;；|\n])+|\s[/•·]\s|\.(?=\s)|[。:：]")
ARROW = re.compile(r"->|=>|→")
FIGURE = re.compile(
    r"(?=[^\w\n]*\d)(?:(?<=\d)\s{0,2}(?:(?:tok|tokens?)/s|ms|sec|s|x|k|gb|gib|mb|tokens?|toks?|steps?|毫秒|秒|个|步|张|倍|条|块)(?=[\d\W_]|$)|\d|\W)+"
)
"""An item of nothing but numbers."""
CHAIN_MARK = re.compile(rf"{ARROW.pattern}|{LIST_MARK.pattern}")
CHINESE_BLANK = re.compile(rf"(?<=[{CJK}]) (?=[{CJK}])")
PARTICLE = re.compile(r"[了就嘛呢吧啊哦咯呗是没也都还很]|然后|这个|那个")
"""What speech is full of and lists of terms are not."""
CHINESE_RUN = re.compile(f"[{CJK}]+")
BLANK_MARK = re.compile(rf"\s|{LIST_MARK.pattern}")
PREDICATE = re.compile(
    r"\b(?:is|are|was|were|be|been|am|do|does|did|has|have|had|can|could|will|would|shall|should|must|may|might|cannot|\w+n't|needs?|gets?|makes?|takes?|keeps?|gives?|runs?|goes|"
    r"uses?|starts?|becomes?|means?|lets?|allows?|comes?|shows?|leaves?|sends?|adds?|holds?|looks?|finds?|hits|hit(?= \d)|matche[sd]|reuses?|because|so|when|if|until|then|never|not|still|instead|"
    r"always|only|less|more|fewer|same|longer|shorter|higher|lower|smaller|larger|bigger|later|separate|different|costs?|saves?|grows?|drops?|rises?|stays?|waits?|happens?|it's|that's|they're|we|i|it|they)\b|"
    r"->|=>|→|=|≈|[<>≤≥≠↑↓]|"
    r"[会是把被让仍还就才都也没跑抓拿越]|扫(?!描)|看(?!板)|做|等(?!待|级|价|于)|写(?!后读)|(?<![计重运预换])算(?![力子法术量])|只(?!读)|不(?!可变)|(?<![重主需])要(?!点|素)|需要|必须|(?<![性可功智])能|可以|先|再|因为|所以|导致|按(?!钮)|给|使(?!用)|比(?!例)|由|从|(?<![引利占复使公共通])用|靠|沿|在(?!飞|途|线)|变"
)
SMALL_WORD = re.compile(
    r"\b(?:a|an|the|with|by|from|into|to|of|for|at|per|its?|their|this|that|which|than|while|each|every|all|no|after|before|without|instead)\b"
)
QUOTED = re.compile(r"[“\"「『]([^“”\"「」『』\n]{1,200})[”\"」』]")
"""Words in quotation marks; whole clauses of them are what others say."""
NOTE_VERB = re.compile(
    r"[a-z]{2,}(?:ed|es|ing)\b|重算|重新|复用|释放|跳过|命中|共享|匹配|提交|排序|等待|丢弃|增|升|降|减|换|省|选|分配|摊薄|覆盖|复制|验证|接受|优先|回到|放回|保护|锁住|驱逐|补|作废|除以|平摊|同理|回滚|退回"
)
NOTE = re.compile(r"[^\s:：≠=+]{2,}\s?(?:[:：≠=]|\s\+\s)\s?[^\s:：≠=+]{2,}")
KEYWORD_HEADING = re.compile(
    r"\s*(?:(?:my )?(?:key ?words?|key terms?|topics?|buzzwords?|terms)\b|i (?:know|mention|am familiar with)\b|(?:it|this|the answer|everything)(?: is|'s)? (?:all )?(?:about|involves?|covers?|includes?)\b|关键词|关键字|术语|知识点|我知道|涉及|提到|了解)[^,，、:：]{0,20}[:：]?"
)
WORD_OR_TWO = re.compile(f"[a-z0-9_]+|[{CJK}]{{1,2}}")
