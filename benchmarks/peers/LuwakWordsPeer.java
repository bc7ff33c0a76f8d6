import java.io.ByteArrayInputStream;
import javax.xml.stream.XMLInputFactory;
import javax.xml.stream.XMLStreamConstants;
import javax.xml.stream.XMLStreamReader;
import org.apache.lucene.analysis.Analyzer;
import org.apache.lucene.analysis.standard.StandardAnalyzer;
import org.apache.lucene.analysis.CharArraySet;
import uk.co.flax.luwak.InputDocument;

/** Luwak on all words of a message, which StAX reads. */
public final class LuwakWordsPeer extends Luwak {
    private static final Analyzer WORDS = new StandardAnalyzer(CharArraySet.EMPTY_SET);

    private final XMLInputFactory factory = XMLInputFactory.newInstance();

    private LuwakWordsPeer() throws Exception {
        super("text", WORDS, 2);
    }

    @Override
    InputDocument document(byte[] event) throws Exception {
        XMLStreamReader reader = factory.createXMLStreamReader(new ByteArrayInputStream(event));
        StringBuilder text = new StringBuilder();
        while (reader.hasNext()) {
            if (reader.next() == XMLStreamConstants.CHARACTERS) {
                text.append(reader.getText()).append(' ');
            }
        }
        return InputDocument.builder("event").addField("text", text.toString(), WORDS).build();
    }

    public static void main(String[] arguments) throws Exception {
        measure(new LuwakWordsPeer(), arguments);
    }
}
