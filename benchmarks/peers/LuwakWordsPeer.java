import java.io.ByteArrayInputStream;
import java.util.ArrayList;
import java.util.List;
import javax.xml.stream.XMLInputFactory;
import javax.xml.stream.XMLStreamConstants;
import javax.xml.stream.XMLStreamReader;
import org.apache.lucene.analysis.Analyzer;
import org.apache.lucene.analysis.standard.StandardAnalyzer;
import org.apache.lucene.analysis.CharArraySet;
import uk.co.flax.luwak.InputDocument;
import uk.co.flax.luwak.Monitor;
import uk.co.flax.luwak.MonitorQuery;
import uk.co.flax.luwak.matchers.SimpleMatcher;
import uk.co.flax.luwak.presearcher.MultipassTermFilteredPresearcher;
import uk.co.flax.luwak.queryparsers.LuceneQueryParser;

/** Luwak on all words of a message, which StAX reads. */
public final class LuwakWordsPeer extends Peer {
    private static final Analyzer WORDS = new StandardAnalyzer(CharArraySet.EMPTY_SET);

    private final XMLInputFactory factory = XMLInputFactory.newInstance();
    private final Monitor monitor;

    private LuwakWordsPeer() throws Exception {
        monitor = new Monitor(new LuceneQueryParser("text", WORDS), new MultipassTermFilteredPresearcher(2, 0.0f));
    }

    @Override
    void add(List<String> rules) throws Exception {
        List<MonitorQuery> queries = new ArrayList<>();
        for (int number = 0; number < rules.size(); number++) {
            queries.add(new MonitorQuery(Integer.toString(number), rules.get(number)));
        }
        monitor.update(queries);
    }

    @Override
    int matches(byte[] event) throws Exception {
        XMLStreamReader reader = factory.createXMLStreamReader(new ByteArrayInputStream(event));
        StringBuilder text = new StringBuilder();
        while (reader.hasNext()) {
            if (reader.next() == XMLStreamConstants.CHARACTERS) {
                text.append(reader.getText()).append(' ');
            }
        }
        InputDocument document = InputDocument.builder("event").addField("text", text.toString(), WORDS).build();
        return monitor.match(document, SimpleMatcher.FACTORY).getMatchCount("event");
    }

    @Override
    void close() throws Exception {
        monitor.close();
    }

    public static void main(String[] arguments) throws Exception {
        measure(new LuwakWordsPeer(), arguments);
    }
}
